"""What the records of a level's batch leg say of themselves, for the hints of a FAIL."""

import math
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from flows.verdicts.hints import RecordFacts


def facts_of(store: Path, run_id: str, level: int) -> RecordFacts | None:
    """The batch leg at one level, over the processes that count; None where there is none. Raises StoreError."""
    from storage.queries import query

    rows = query(store, _LEGS, [run_id, level]).to_dict("records")
    if not rows:
        return None
    ids = [row["record_id"] for row in rows]
    steps: Counter[int] = Counter()
    for row in query(store, "SELECT rows, steps FROM step_rows WHERE record_id IN (SELECT unnest(?))", [ids]).to_dict("records"):
        steps[int(row["rows"])] += int(row["steps"])
    return RecordFacts(
        level=level,
        slots=int(rows[0]["slots"]),
        wall_s=_mean(rows, "wall_sum_s"),
        prefill_s=_mean(rows, "prefill_s"),
        decode_s=_mean(rows, "decode_s"),
        peak_running=max((int(row["peak_running"]) for row in rows if _there(row["peak_running"])), default=None),
        rows_per_step=dict(steps),
        bandwidth_fraction=_mean(rows, "bandwidth_fraction"),
        throttled=any("throttled" in str(reason) for row in rows for reason in row["invalid_because"]) or None,
    )


_LEGS = """
    SELECT records.record_id, slots, wall_sum_s, prefill_s, decode_s, peak_running, invalid_because,
        decode_reads.bandwidth_fraction
    FROM legs JOIN records USING (record_id) JOIN process_figures USING (record_id)
    LEFT JOIN decode_reads ON decode_reads.record_id = records.record_id
    WHERE legs.run_id = ? AND legs.level = ? AND legs.mode = 'batch' AND legs.status IN ('ok', 'invalid')
    ORDER BY legs.pair
"""


def _mean(rows: list[dict[Any, Any]], name: str) -> float | None:
    values = [float(row[name]) for row in rows if _there(row[name])]
    return statistics.fmean(values) if values else None


def _there(value: Any) -> bool:
    return value is not None and not math.isnan(value)
