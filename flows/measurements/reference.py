"""The engine against its torch reference: parity of a build with plain code, as a record.

    python -P -m flows.measurements.reference request.json result.json

A process of its own, because it loads torch, which no process that times anything may. Prompts of 1 and of spec.prompt_tokens
ids; the comparison is that of `paceline check`. A build that differs fails the measurement; where torch or the build's checker is
missing, the record is invalid and says so: nothing was compared.
"""

import sys

from flows.measurements.bench import Bench, MeasurementError, say
from flows.measurements.check import NO_TORCH
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra


def measure(bench: Bench[EngineExtra]) -> None:
    """Compare, and raise MeasurementError where they part."""
    spec = bench.spec
    try:
        import torch

        from engine.check import check
    except ModuleNotFoundError as error:
        missing = NO_TORCH if error.name == "torch" else f"this build has no checker: {error}"
        bench.invalid([f"reference: {missing}"])
        return
    torch.set_num_threads(1)  # its pool and the engine's would only wait for one another
    with bench.session(mode="batch", slot_count=1):  # for the record's facts on the engine; the checker opens its own
        pass
    options = bench.under_test.engine.SessionOptions(
        mode="batch", tp=spec.tp, isa=bench.extra.isa, devices=spec.devices, threads=spec.threads, context=spec.context
    )
    lengths = tuple(sorted({1, spec.prompt_tokens}))
    report = check(
        spec.checkpoint,
        options,
        prompt_lengths=lengths,
        new_tokens=spec.new_tokens,
        seed=spec.seed,
        say=say,
        cache=bench.request.cache,
    )
    for line in report.lines():
        say(line)
    different = sum(not agreement.passed for agreement in report.rounded)
    if not report.passed:
        different = max(different, 1)
    bench.values |= {
        "reference_requests": float(len(lengths)),
        "reference_requests_different": float(different),
        "reference_error": max(agreement.relative_error for agreement in report.rounded),
        "reference_float32_error": max(agreement.relative_error for agreement in report.wide),
    }
    bench.details["report"] = report.lines()
    if not report.passed:
        where = "" if report.parts_at is None else f", from layer {report.parts_at - 1} on"
        raise MeasurementError(f"{different} of {len(lengths)} prompts differ from the torch reference{where}")


KIND = Kind("reference", EngineExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
