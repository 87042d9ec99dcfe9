"""Names that people can read for the store's series, which it knows by digest."""

from collections import Counter
from pathlib import Path

import pandas as pd

from dashboards.run_view import json_object
from storage import queries


def series_names(snapshot: Path) -> dict[str, str]:
    """Series digest -> 'Example CPU, synthetic:small, tp 4', with the digest's beginning where two would read the same."""
    records = queries.records(snapshot)
    paired = records[records["environment_id"].notna() & records["kind"].isin(["latency", "throughput"])]  # a line's points
    described = paired.drop_duplicates("series_id", keep="last")
    labels = {str(row["series_id"]): _label(snapshot, str(row["record_id"])) for row in described.to_dict("records")}
    seen = Counter(labels.values())
    return {key: label if seen[label] == 1 else f"{label} ({key[:6]})" for key, label in labels.items()}


def named(frame: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """The frame with names in its column `series`; what has none keeps its digest."""
    return frame.assign(series=[names.get(str(key), str(key)) for key in frame["series"]])


def _label(snapshot: Path, record_id: str) -> str:
    record = queries.record(snapshot, record_id)
    machine = json_object(record["environment"]["machine"])
    gpus = Counter(machine.get("gpus") or [])
    where = (
        ", ".join(name if many == 1 else f"{many} x {name}" for name, many in gpus.items())
        or machine.get("cpu_model")
        or record["environment"]["hostname"]
    )
    what = str(record["checkpoint"]).rstrip("/").rsplit("/", 1)[-1]
    return f"{where}, {what}, tp {record['series']['tp']}, {record['workload']}"
