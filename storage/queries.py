"""The questions the rest of paceline asks, each answered by a data frame. Absent is None, NaN or NaT, as pandas has it.

`path` is a results folder, the store or a snapshot; the snapshot is what is read. Each raises StoreMissing, StoreTooNew or
StoreError as `storage.database.read` does. The columns of each answer, with their units, stand in the view's file in
storage/views.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from storage.database import read
from storage.errors import StoreError


def query(path: Path | str, sql: str, parameters: Sequence[Any] = ()) -> pd.DataFrame:
    """The rows of any SELECT."""
    with read(path) as connection:
        return connection.execute(sql, list(parameters)).df()


def target_ratios(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """One row a pair: run_id, commit, workload, series, metric, level, pair, serial, batch, ratio, valid, reason, broken."""
    frame = _of_run(path, "target_ratios", run_id, "run_id, workload, level, pair")
    return frame.drop(columns="dirty")


def pair_metrics(path: Path | str, run_id: str | None = None, metric: str | None = None) -> pd.DataFrame:
    """Both legs' values of every metric, one row a pair and metric: run_id, workload, series, metric, level, pair, serial,
    batch, valid, reason, broken. Pairs without a value in either leg have no row.
    """
    wanted = {name: value for name, value in (("run_id", run_id), ("metric", metric)) if value is not None}
    where = " AND ".join(f"{name} = ?" for name in wanted) or "true"  # conditions as they are reach down to the tables
    sql = f"SELECT * FROM pair_metrics WHERE {where} ORDER BY run_id, workload, metric, level, pair"
    return query(path, sql, list(wanted.values()))


def level_table(path: Path | str, run_id: str) -> pd.DataFrame:
    """One row a level and mode, serial first: level, mode, wall_s, e2el_mean_s, ttft_mean_s, tpot_mean_s, request_throughput,
    output_throughput, processes, rounds, workload.
    """
    return _of_run(path, "level_table", run_id, "workload, level, mode = 'batch'").drop(columns="run_id")


def ratio_history(path: Path | str) -> pd.DataFrame:
    """One row a run, series, level and metric, in topological order, those without a place last: run_id, commit,
    commit_position, committed_at, series, workload, level, metric, ratio, low, high, verdict, target, direction, placement,
    subject, measured_at, pairs.
    """
    return _of_run(path, "ratio_by_commit", None, "series, level, metric, commit_position NULLS LAST, measured_at, run_id")


def verdicts(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """One row a target: run_id, workload, metric, level, name, leg, direction, target, unit, status, ratio, low, high,
    confidence, mde, pairs, point, reason, flags, excluded, waived, details.
    """
    return _of_run(path, "verdicts", run_id, "run_id, workload, level, metric, name")


def latest_verdicts(path: Path | str) -> pd.DataFrame:
    """The newest verdict on each target of each series."""
    return _of_run(path, "latest_verdicts", None, "workload, series, level, metric, name")


def runs(path: Path | str) -> pd.DataFrame:
    """One row a run, the newest first."""
    return _of_run(path, "run_overview", None, "started_at DESC NULLS LAST, run_id DESC")


def records(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """The table `records`, in the order of execution."""
    return _of_run(path, "records", run_id, "run_id, run_order, attempt, started_at")


def invalid(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """Pairs that do not count, and why: run_id, workload, level, pair, reason, broken, serial_record_id, batch_record_id,
    same_tokens.
    """
    return _of_run(path, "invalid_pairs", run_id, "run_id, workload, level, pair")


def exclusions(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """All that was measured, planned or offered and reaches no ratio: run_id, measurement, attempt, record_id, reason."""
    return _of_run(path, "exclusions", run_id, "run_id NULLS LAST, measurement, attempt")


def which_leg_moved(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """Each change of a ratio, split into its legs."""
    return _of_run(path, "which_leg_moved", run_id, "series, level, metric, measured_at")


def request_latency_percentiles(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """Median and tail of the request latency, one row a run, level and mode."""
    return _of_run(path, "request_latency_percentiles", run_id, "run_id, workload, level, mode = 'batch'")


def token_latencies(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """TTFT, TPOT and ITL, one row a run, level, mode and metric."""
    return _of_run(path, "token_latencies", run_id, "run_id, workload, level, mode = 'batch', metric")


def latency_shares(path: Path | str, run_id: str, shares: Sequence[float]) -> pd.DataFrame:
    """Whole distributions: metric (ttft_s, tpot_s, itl_s, e2el_s), level, mode, share (0 to 1), value_s: so much of the kept,
    completed requests (gaps, for itl_s) of the processes that count took at most that many seconds.
    """
    sql = """WITH kept AS (
            SELECT level, mode, requests.e2el_s, requests.ttft_s, requests.tpot_s, requests.itl_s
            FROM legs JOIN requests USING (record_id)
            WHERE run_id = $run AND trouble IS NULL AND NOT warmup AND finish_reason IN ('length', 'stop')
        ),
        samples AS (
            SELECT level, mode, 'e2el_s' AS metric, e2el_s AS value FROM kept
            UNION ALL SELECT level, mode, 'ttft_s', ttft_s FROM kept
            UNION ALL SELECT level, mode, 'tpot_s', tpot_s FROM kept
            UNION ALL SELECT level, mode, 'itl_s', unnest(itl_s) FROM kept
        )
        SELECT metric, level, mode, unnest($shares::DOUBLE[]) AS share, unnest(quantile_cont(value, $shares::DOUBLE[])) AS value_s
        FROM samples WHERE value IS NOT NULL GROUP BY metric, level, mode ORDER BY metric, level, mode = 'batch', share"""
    with read(path) as connection:
        return connection.execute(sql, {"run": run_id, "shares": list(shares)}).df()


def request_samples(path: Path | str, run_id: str) -> pd.DataFrame:
    """Every kept request of the processes that count: workload, level, mode, pair, round, request, e2el_s, ttft_s, tpot_s,
    queue_s.
    """
    sql = """SELECT workload, level, mode, pair, round, request,
            requests.e2el_s, requests.ttft_s, requests.tpot_s, requests.queue_s
        FROM legs JOIN requests USING (record_id) WHERE run_id = ? AND trouble IS NULL AND NOT warmup
        ORDER BY workload, level, mode = 'batch', pair, round, request"""
    return query(path, sql, [run_id])


def round_walls(path: Path | str, run_id: str) -> pd.DataFrame:
    """Every round of the processes that count, warm-up included: workload, level, mode, pair, round, warmup, wall_s."""
    sql = """SELECT workload, level, mode, pair, round, warmup, rounds.wall_s
        FROM legs JOIN rounds USING (record_id) WHERE run_id = ? AND trouble IS NULL
        ORDER BY workload, level, mode = 'batch', pair, round"""
    return query(path, sql, [run_id])


def parity(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """Whether batch agreed with serial, and the engine with its reference, before anything was timed."""
    return _of_run(path, "parity", run_id, "run_id, workload, kind")


def other_figures(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """What the kinds beside the pairs found, one row a figure."""
    return _of_run(path, "other_figures", run_id, "run_id, workload, kind, measurement, attempt, name")


def noise_floor(path: Path | str) -> pd.DataFrame:
    """How restless each night was, oldest first."""
    return _of_run(path, "noise_floor", None, "measured_at, run_id, workload, level")


def canary_pairs(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """Both arms of each canary, requests/s: run_id, workload, level, mode, pair, a, b."""
    return _of_run(path, "canary_pairs", run_id, "run_id, workload, level, mode, pair")


def nights(path: Path | str, series: str | None = None) -> pd.DataFrame:
    """One row a run, series and commit, oldest first: run_id, series, workload, commit, position, build, measured_at."""
    sql = "SELECT * FROM nights WHERE coalesce(series = ?, true) ORDER BY measured_at, run_id, series"
    return query(path, sql, [series])


def change_points(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """The changes that were told, by series and place: the table `change_points`."""
    return _of_run(path, "change_points", run_id, "series, level, metric, bad_position, run_id")


def decisions(path: Path | str) -> pd.DataFrame:
    """What people accepted and waived, oldest first: the table `decisions`."""
    return _of_run(path, "decisions", None, "decided_at, kind, target, commit")


def build_failures(path: Path | str) -> pd.DataFrame:
    """Commits that cannot be built, the newest attempt last: commit, position, subject, attempts, asked_at, seconds, failure,
    run_id.
    """
    return _of_run(path, "build_failures", None, 'asked_at NULLS FIRST, "commit"')


def build_times(path: Path | str) -> pd.DataFrame:
    """Builds and their failures, oldest first."""
    return _of_run(path, "build_times", None, "created_at NULLS LAST, build_id")


def occupancy(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """How full the slots were, one row a leg."""
    return _of_run(path, "occupancy", run_id, "run_id, workload, level, pair, mode = 'batch'")


def bandwidth_fraction(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """Share of the read bandwidth that decoding reached, where it was reported."""
    return _of_run(path, "bandwidth_fraction", run_id, "run_id, workload, level, mode = 'batch'")


def night_costs(path: Path | str) -> pd.DataFrame:
    """Minutes that each night took, oldest first."""
    return _of_run(path, "night_costs", None, "started_at, run_id")


def machines(path: Path | str) -> pd.DataFrame:
    """Machines that measured."""
    return _of_run(path, "machines", None, "first_seen, fingerprint")


def record(path: Path | str, record_id: str) -> dict[str, Any]:
    """Everything the store knows of one record: its row, and under `series`, `environment`, `figures`, `latencies`, `values`,
    `rounds` the rows that belong to it. `record_id` may be a beginning that only one record has. Raises StoreError for none
    or several.
    """
    with read(path) as connection:
        found = _dicts(connection.execute("SELECT * FROM records WHERE starts_with(record_id, ?) LIMIT 2", [record_id]))
        if len(found) != 1:
            raise StoreError(
                f"record {record_id!r}: {'several records begin' if found else 'no record begins'} with it in {path}"
            )
        row, key = found[0], found[0]["record_id"]
        one = {"series": ("series", "series_id"), "environment": ("environments", "environment_id")}
        for name, (table, column) in one.items():
            matching = _dicts(connection.execute(f"SELECT * FROM {table} WHERE {column} = ?", [row[column]]))
            row[name] = matching[0] if matching else None
        many = {"figures": "process_figures", "latencies": "process_latencies", "values": "named_values", "rounds": "rounds"}
        for name, table in many.items():
            row[name] = _dicts(connection.execute(f"SELECT * EXCLUDE (record_id) FROM {table} WHERE record_id = ?", [key]))
        return row


def _of_run(path: Path | str, relation: str, run_id: str | None, order: str) -> pd.DataFrame:
    try:
        if run_id is None:
            return query(path, f"SELECT * FROM {relation} ORDER BY {order}")
        return query(path, f"SELECT * FROM {relation} WHERE run_id = ? ORDER BY {order}", [run_id])
    except duckdb.CatalogException as error:
        raise StoreError(
            f"{path}: has no {relation}, so an older paceline wrote it; `paceline ingest` or `paceline rebuild` on its results "
            "folder brings it up to date"
        ) from error


def _dicts(cursor: Any) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
