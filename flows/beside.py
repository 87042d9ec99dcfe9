"""Measures what a plan has beside its pairs: the checks before anything is timed, and the other kinds after it."""

from collections.abc import Sequence

from flows.aggregate import keep_records
from flows.attempt import Run
from flows.locks import exclusive, measuring_lock
from flows.measure import measure
from flows.plan import Measurement
from flows.progress import report
from storage.errors import StoreError


def measure_beside(measurements: Sequence[Measurement], run: Run) -> None:
    """Measure those that have no good record yet, one at a time, and store them. One that fails stops nothing: it is kept, and
    a check that fails makes every pair of the run an ERROR (storage/views/parity.sql).
    """
    done = run.folder.measured()
    todo = [measurement for measurement in measurements if measurement.name not in done]
    for place, measurement in enumerate(todo):
        left_s = sum(run.expectations.expected_s(later.spec) for later in todo[place:])
        report().remaining(len(measurements) - len(todo) + place, len(measurements), left_s)
        with exclusive(measuring_lock(), lambda: report().note("waiting: another measurement is running on this machine")):
            measure(measurement, run, return_state=True)
    if not todo:
        return
    try:
        for reason in keep_records(run.folder):
            report().note(f"set aside: {reason}")
    except StoreError as error:  # the records are on disk; the ingest at the end tries again, and fails loudly
        report().note(f"not in the store yet: {error}")
