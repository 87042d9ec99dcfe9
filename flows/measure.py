"""The measurement as a Prefect task: named for people, and never fatal to the run."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.attempt import Run, Seat, attempt
from flows.in_turns import Waiter, in_turns
from flows.plan import Measurement
from flows.progress import describe
from storage.records import Record


class MeasurementError(RuntimeError):
    """A measurement without a usable result; its record and log are kept. The message says how it ended."""


@task(name="measure", task_run_name="{measurement.label}", retries=1, persist_result=False, cache_policy=NO_CACHE)
def measure(measurement: Measurement, run: Run, seat: Seat | None = None) -> Record:
    """Measure once, and once more where that failed. Raises MeasurementError; the run goes on without it."""
    record = attempt(measurement, run, seat)
    if record.status not in ("ok", "invalid"):
        raise MeasurementError(f"{measurement.label}: {describe(record)}")
    return record


def measure_apart(legs: tuple[Measurement, Measurement], run: Run) -> bool:
    """One leg right after the other; each that fails is tried once more by itself. Whether none was invalid."""
    states = [measure(leg, run, return_state=True) for leg in legs]
    return "invalid" not in [_status(state.result(raise_on_failure=False)) for state in states]


def measure_in_turns(legs: tuple[Measurement, Measurement], run: Run) -> bool:
    """Both legs in turns, each a task of its own; a leg without its partner means nothing, so none is tried again alone.
    Whether both are ok.
    """
    once = measure.with_options(retries=0)

    def begin(leg: Measurement, run: Run, seat: Seat) -> Waiter[str]:
        future = once.submit(leg, run, seat)
        future.add_done_callback(lambda _: seat.release())  # also of a task that ended before it began
        return lambda: _status(future.result(raise_on_failure=False))

    return in_turns(legs, (run, run), begin) == ("ok", "ok")


def _status(outcome: object) -> str:
    return outcome.status if isinstance(outcome, Record) else "failed"
