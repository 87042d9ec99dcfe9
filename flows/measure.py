"""The measurement as a Prefect task: named for people, tried twice, and never fatal to the run."""

from prefect import task

from flows.attempt import Run, attempt
from flows.plan import Measurement
from flows.progress import describe
from storage.records import Record


class MeasurementError(RuntimeError):
    """A measurement without a usable result; its record and log are kept. The message says how it ended."""


@task(name="measure", task_run_name="{measurement.label}", retries=1, persist_result=False)
def measure(measurement: Measurement, run: Run) -> Record:
    """Measure once, and once more where that failed. Raises MeasurementError; the run goes on without it."""
    record = attempt(measurement, run)
    if record.status not in ("ok", "invalid"):
        raise MeasurementError(f"{measurement.label}: {describe(record, 0.0)}")
    return record
