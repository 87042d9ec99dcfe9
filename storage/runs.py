"""What is stored of a run beside its records: the run itself with its plan, and its verdicts. Builds: storage/builds.py.

A run is raw truth: it is written as JSON into the run's folder first, and a rebuild reads it there.
Verdicts are derived: a rebuild has them worked out again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from storage.database import Database
from storage.errors import StoreError
from storage.json_files import read_json, write_json
from storage.load_rows import insert_rows
from storage.rows import Row, canonical, timestamp
from storage.sql import transaction

RUN_FILE, PLAN_FILE = "run.json", "plan.json"

_TARGET_FIELDS = {"name": "name", "metric": "metric", "level": "level", "direction": "direction", "unit": "unit", "leg": "leg"}
_VERDICT_FIELDS = ("status", "ratio", "low", "high", "confidence", "mde", "pairs", "reason")
_VERDICT_KNOWN = {"target", "workload", "bound", "point", "flags", "excluded", "waived", *_VERDICT_FIELDS}


def store_run(
    db_path: Path | str,
    run_id: str,
    *,
    commit: str | None = None,
    workload: str | None = None,
    plan: Mapping[str, Any] | None = None,
    started_at: datetime | str | None = None,
    finished_at: datetime | str | None = None,
    exit_code: int | None = None,
) -> None:
    """Note a run, or add to what is known of it: None leaves a field as it is. Writes run.json (and plan.json, where it is
    not there yet) into the run's folder, then the row.
    """
    database = Database(db_path)
    folder = database.path.parent / run_id
    given = {
        "run_id": run_id,
        "commit": commit,
        "workload": workload,
        "started_at": timestamp(started_at),
        "finished_at": timestamp(finished_at),
        "exit_code": exit_code,
    }
    known = read_json(folder / RUN_FILE) if (folder / RUN_FILE).exists() else {}
    write_json(folder / RUN_FILE, {**known, **{name: value for name, value in given.items() if value is not None}})
    if plan is not None and not (folder / PLAN_FILE).exists():
        write_json(folder / PLAN_FILE, plan)
    with database.write() as connection, transaction(connection):
        insert_run(connection, folder)


def insert_run(connection: DuckDBPyConnection, folder: Path) -> None:
    """The rows of a run from its folder's run.json and plan.json. Raises StoreError for a file that is not JSON."""
    run = read_json(folder / RUN_FILE) if (folder / RUN_FILE).exists() else None
    plan = read_json(folder / PLAN_FILE) if (folder / PLAN_FILE).exists() else None
    if run is not None or plan is not None:
        names = ("commit", "workload", "started_at", "finished_at", "exit_code")
        row: Row = {"run_id": folder.name, **{name: (run or {}).get(name) for name in names}}
        row["plan"] = None if plan is None else canonical(plan)
        insert_rows(connection, "runs", [row], on_conflict="OR REPLACE")
        connection.execute("DELETE FROM planned WHERE run_id = ?", [folder.name])
        insert_rows(connection, "planned", planned_rows(folder.name, plan or {}))


def planned_rows(run_id: str, plan: Mapping[str, Any]) -> list[Row]:
    """One row a planned measurement. A block belongs to the first look that covers it."""
    stages = list(plan.get("stages", ()))
    rows = [_planned_row(run_id, measurement, 1) for part in ("checks", "others") for measurement in plan.get(part, ())]
    for block in plan.get("blocks", ()):
        stage = 1 + sum(block["block"] > pairs for pairs in stages)
        for pair in block["pairs"]:
            rows += [_planned_row(run_id, measurement, stage) for measurement in pair["measurements"]]
    return rows


def _planned_row(run_id: str, measurement: Mapping[str, Any], stage: int) -> Row:
    spec = {name: measurement["spec"][name] for name in ("workload", "mode", "level", "pair")}
    return {"run_id": run_id, "measurement": measurement["name"], "stage": stage, **spec}


def store_verdicts(
    db_path: Path | str, run_id: str, verdicts: Sequence[Mapping[str, Any]], *, workload: str | None = None
) -> None:
    """Replace the verdicts of a run. Each is a verdict as a dictionary, with its target as a nested one
    (`Verdict.to_dict()`); its field `workload`, or else the argument, or else the run's only workload says what was measured.
    """
    with Database(db_path).write() as connection:
        fallback = workload or _only_workload(connection, run_id)
        rows = [_verdict_row(run_id, verdict, fallback) for verdict in verdicts]
        with transaction(connection):
            connection.execute("DELETE FROM verdicts WHERE run_id = ?", [run_id])
            insert_rows(connection, "verdicts", rows)


def store_changes(db_path: Path | str, run_id: str, changes: Sequence[Mapping[str, Any]]) -> None:
    """Replace the changes that a run told of; each has the columns of `change_points` but for run_id."""
    with Database(db_path).write() as connection, transaction(connection):
        connection.execute("DELETE FROM change_points WHERE run_id = ?", [run_id])
        insert_rows(connection, "change_points", [{"run_id": run_id, **change} for change in changes])


def _verdict_row(run_id: str, verdict: Mapping[str, Any], workload: str | None) -> Row:
    target = verdict["target"]
    chosen = verdict.get("workload", workload)
    if not chosen:
        raise StoreError(
            f"run {run_id}: verdict {target['name']!r}: field 'workload' is missing, and the run has not exactly one workload"
        )
    bound = verdict.get("bound")
    if bound is None and not target.get("relative", False):
        bound = target["bound"]
    return {
        "run_id": run_id,
        "workload": chosen,
        **{column: target[name] for column, name in _TARGET_FIELDS.items() if name in target},
        "leg": target.get("leg", "ratio"),
        "target": bound,
        **{name: verdict.get(name) for name in _VERDICT_FIELDS},
        "point": bool(verdict.get("point", False)),
        "flags": list(verdict.get("flags", ())),
        "excluded": list(verdict.get("excluded", ())),
        "waived": verdict.get("waived", "") or "",
        "details": canonical({name: value for name, value in verdict.items() if name not in _VERDICT_KNOWN}),
    }


def _only_workload(connection: DuckDBPyConnection, run_id: str) -> str | None:
    sql = """SELECT workload FROM records WHERE run_id = ?
        UNION SELECT workload FROM runs WHERE run_id = ? AND workload IS NOT NULL"""
    found = connection.execute(sql, [run_id, run_id]).fetchall()
    return str(found[0][0]) if len(found) == 1 else None
