"""What the pages ask about single measurements: each record of a run, and each request of it.

`path` as in `storage.queries`, and the same errors.
"""

from pathlib import Path

import pandas as pd

from storage.queries import query

_RECORDS = """
    SELECT record_id, measurement, status, kind, workload, mode, level, pair, attempt, run_order,
        checkpoint, checkpoint_digest, isa, "commit", dirty, tree, started_at, finished_at, load_s, peak_running, peak_waiting,
        prefill_s, decode_s, hostname, fingerprint, machine, spec, host_before, host_after, source_file, failure_log,
        concat_ws('; ', failure_type, failure_message, nullif(array_to_string(invalid_because, '; '), '')) AS trouble
    FROM records LEFT JOIN environments USING (environment_id)
    WHERE run_id = ?
    ORDER BY workload, run_order, measurement, attempt
"""
_REQUESTS = """
    SELECT legs.run_id, legs.workload, legs.level, legs.mode, legs.pair, requests.round, requests.request, requests.output_tokens,
        requests.e2el_s, requests.ttft_s, requests.tpot_s, requests.itl_s
    FROM legs JOIN requests USING (record_id)
    WHERE legs.run_id = ? AND legs.trouble IS NULL AND NOT requests.warmup
    ORDER BY legs.workload, legs.level, legs.mode, legs.pair, requests.round, requests.request
"""


def records(path: Path | str, run_id: str) -> pd.DataFrame:
    """One row a record of the run, retries too, in the order of execution. machine, spec, host_before, host_after: JSON text;
    trouble: why it failed or is invalid, empty where it is good; source_file: raw record, relative to the results folder
    where it lies in it.
    """
    return query(path, _RECORDS, [run_id])


def requests(path: Path | str, run_id: str) -> pd.DataFrame:
    """One row a request of the kept rounds of the legs that count; e2el_s, ttft_s, tpot_s in seconds, itl_s a list of seconds."""
    return query(path, _REQUESTS, [run_id])
