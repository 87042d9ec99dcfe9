"""Two runs side by side: what was asked for, where it ran, what came out. Equal lines are left out."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from storage.errors import StoreError


class Difference(NamedTuple):
    """One line: what, in the first run, in the second. Absent is a dash."""

    what: str
    first: str
    second: str


def configurations(store: Path, first: str, second: str) -> list[Difference]:
    """Parameters, commits and environments in which the runs differ. Raises StoreError for a run that is not there."""
    return list(_unequal(_configuration(store, first), _configuration(store, second)))


def figures(store: Path, first: str, second: str) -> list[Difference]:
    """Every level's figures by mode and every ratio, with the change; these are shown whether they differ or not."""
    ours, theirs = _figures(store, first), _figures(store, second)
    return [Difference(name, *_changed(ours.get(name), theirs.get(name))) for name in sorted({*ours, *theirs}, key=_by_level)]


def _configuration(store: Path, run_id: str) -> dict[str, Any]:
    from storage.queries import query

    sql = """SELECT any_value("commit") AS "commit", bool_or(dirty) AS dirty, any_value(tree) AS tree, any_value(isa) AS isa,
        any_value(module_sha256) AS module, any_value(checkpoint_digest) AS checkpoint, any_value(hostname) AS hostname,
        any_value(fingerprint) AS fingerprint, any_value(machine)::VARCHAR AS machine, any_value(packages)::VARCHAR AS packages
        FROM records LEFT JOIN environments USING (environment_id) WHERE run_id = ?"""
    row: dict[Any, Any] = query(store, sql, [run_id]).to_dict("records")[0]
    if not isinstance(row["commit"], str):
        raise StoreError(f"run {run_id!r}: has no record in {store}; the view run_overview lists the runs")
    plans = query(store, "SELECT plan::VARCHAR AS plan FROM runs WHERE run_id = ?", [run_id])["plan"]
    plan = json.loads(plans[0]) if len(plans) and isinstance(plans[0], str) else {}
    found = {f"parameter {name}": value for name, value in plan.get("parameters", {}).items() if name not in ("run", "results")}
    for column in ("machine", "packages"):
        text = row.pop(column)
        nested = json.loads(text) if isinstance(text, str) else {}
        found |= {f"{column} {name}": value for name, value in nested.items()}
    return {**{str(name): value for name, value in row.items()}, **found}


def _figures(store: Path, run_id: str) -> dict[str, float]:
    from storage.queries import level_table, ratio_history

    found: dict[str, float] = {}
    names = {"wall_s": "wall a round, s", "e2el_mean_s": "request latency, s", "request_throughput": "throughput, req/s"}
    for row in level_table(store, run_id).to_dict("records"):
        found |= {f"x{row['level']} {row['mode']} {shown}": row[name] for name, shown in names.items()}
    history = ratio_history(store)
    for row in history[history["run_id"] == run_id].to_dict("records"):
        found[f"x{row['level']} {row['metric']}"] = row["ratio"]
    return found


def _by_level(name: str) -> tuple[int, str]:
    return int(name[1:].partition(" ")[0]), name


def _changed(first: float | None, second: float | None) -> tuple[str, str]:
    left, right = ("-" if value is None or value != value else f"{value:.4g}" for value in (first, second))  # noqa: PLR0124  # NaN
    if first and second and "-" not in (left, right):
        right += f" ({second / first - 1:+.1%})"
    return left, right


def _unequal(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted({*first, *second}):
        left, right = first.get(name, "-"), second.get(name, "-")
        if left != right and not (left != left and right != right):  # noqa: PLR0124  # both NaN: absent in both
            yield Difference(name, str(left), str(right))
