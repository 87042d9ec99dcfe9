"""latency and throughput as processes, on the real engine: figures, evidence, exit codes, and every way to fail."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.build import Build
from storage.records import Record, Source

pytestmark = pytest.mark.timeout(900)  # the first test may have to build the engine
Measure = Callable[..., Any]


def test_a_lone_request_in_both_modes(measure: Measure) -> None:
    tokens = []
    for mode in ("serial", "batch"):
        done = measure("latency", mode=mode, level=1)
        assert done.returncode == 0, done.output
        record: Record = done.record
        assert (record.status, len(record.rounds), len(record.kept_rounds())) == ("ok", 3, 2)
        for sample in record.rounds:
            (request,) = sample.requests
            assert request.output_tokens == 32
            assert request.ttft_s is not None
            assert 0 < request.ttft_s < request.e2el_s
            assert request.e2el_s == pytest.approx(sample.wall_s)
            assert request.ttft_s + sum(request.itl_s) == pytest.approx(request.e2el_s)
            assert len(request.itl_s) == 31
        assert record.occupancy is not None
        assert record.occupancy.rows_per_step == {"1": 62}
        tokens.append([q.tokens_sha256 for sample in record.rounds for q in sample.requests])
    assert tokens[0] == tokens[1]
    assert len(set(tokens[0])) == 3, "every round has a prompt of its own"


def test_serial_requests_wait_for_their_turn_and_batched_ones_go_together(measure: Measure) -> None:
    serial, batch = measure("throughput", mode="serial"), measure("throughput", mode="batch")
    assert (serial.returncode, batch.returncode) == (0, 0), serial.output + batch.output
    for sample in serial.record.kept_rounds():
        admitted = [q.queue_s for q in sample.requests]
        assert admitted == sorted(admitted)
        assert admitted[3] > admitted[0]
        assert sample.requests[-1].e2el_s == pytest.approx(max(q.e2el_s for q in sample.requests))
    assert serial.record.occupancy.peak_running == 1
    assert serial.record.occupancy.peak_waiting in {3, 4}, "all four wait where none was admitted before the last was sent"
    assert batch.record.occupancy.peak_running == 4
    assert serial.record.values["slot_fill_fraction"] == pytest.approx(1.0)
    assert batch.record.values["slot_fill_fraction"] > 0.8
    assert batch.record.values["decode_step_bytes"] > serial.record.values["decode_step_bytes"] > 0
    assert serial.record.output_tokens() == batch.record.output_tokens() == 2 * 4 * 32
    hashes = [[q.tokens_sha256 for r in leg.record.rounds for q in r.requests] for leg in (serial, batch)]
    assert hashes[0] == hashes[1]


def test_the_record_says_what_was_measured_and_where(measure: Measure, built: tuple[Build, Source]) -> None:
    build, source = built
    record: Record = measure("throughput", tp=2, slots=4).record
    assert record.source == source
    assert record.engine is not None
    assert record.engine.api_version == 1
    module = next((build.folder / "engine").glob("_native*.so"))
    assert record.engine.module_sha256 == hashlib.sha256(module.read_bytes()).hexdigest()
    assert record.engine.memory["weights"] > 0
    assert record.engine.isa
    assert record.environment is not None
    assert record.environment.machine["compiler"] == build.info["compiler"]
    assert {"python", "numpy", "pydantic", "psutil"} <= set(record.environment.packages)
    assert {"load_1m", "processes", "threads", "own_threads"} <= set(record.environment.before) & set(record.environment.after)
    assert record.environment.after["own_threads"] == record.environment.before["own_threads"], "the engine's threads are gone"
    assert record.started_at < record.finished_at


def test_more_requests_than_slots_wait_and_the_record_says_so(measure: Measure) -> None:
    done = measure("throughput", level=6, slots=3)
    assert done.returncode == 0, done.output
    assert done.record.status == "ok"
    assert (done.record.occupancy.peak_running, done.record.occupancy.peak_waiting >= 3) == (3, True)


def test_slots_that_are_not_filled_make_the_record_invalid(measure: Measure) -> None:
    """Long prompts in small chunks and a few new tokens: the first requests are done before the last have begun."""
    done = measure("throughput", level=8, prompt_tokens=64, new_tokens=3, context=67, extra={"prefill_rows": 16})
    assert done.returncode == 0, done.output
    assert done.record.status == "invalid"
    assert any(reason.startswith("occupancy: ") for reason in done.record.invalid_because)
    assert f"invalid: {done.record.invalid_because[0]}" in done.output


def test_a_refused_request_fails_the_measurement(measure: Measure) -> None:
    done = measure("throughput", level=5000, prompt_tokens=2, new_tokens=1, runs=1, warmup=0)
    assert done.returncode == 1
    assert (done.record.status, done.record.failure.type) == ("failed", "RequestRefused")
    assert done.record.failure.log == "logs/test.log"
    assert done.record.rounds == []
    assert done.record.engine is not None, "what was known until then is kept"
    assert "Traceback" in done.output


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ({"checkpoint": "/no/such folder"}, "CheckpointError", "/no/such folder"),
        ({"checkpoint": "synthetic:huge"}, "ConfigError", "huge"),
        ({"tp": 3}, "ConfigError", "tp"),
        ({"extra": {"isa": "mmx"}}, "ConfigError", "option isa: found 'mmx'"),
        ({"extra": {"isa": 5}}, "RequestError", "spec.extra: field isa: found 5"),
        (
            {"extra": {"window_s": 5}},
            "RequestError",
            "field window_s: found 5: Extra inputs",
        ),
        ({"level": 1}, "RequestError", "field spec.level: found 1: throughput measures level 2 and above"),
    ],
)
def test_what_cannot_be_served_is_a_failed_record(measure: Measure, spec: dict[str, Any], error: str, says: str) -> None:
    done = measure("throughput", **spec)
    assert done.returncode == 1
    assert done.record.status == "failed"
    assert done.record.failure.type == error, done.record.failure
    assert says in done.record.failure.message
    assert done.record.environment is not None


def test_a_build_of_another_api_is_a_failed_record(measure: Measure, built: tuple[Build, Source], tmp_path: Path) -> None:
    other = tmp_path / "other build"
    shutil.copytree(built[0].folder, other)
    binding = other / "engine" / "binding.py"
    binding.write_text(binding.read_text().replace("API_VERSION = 1", "API_VERSION = 7"))
    done = measure("throughput", build_folder=other)
    assert done.returncode == 1
    assert done.record.failure.type == "BuildError"
    assert "engine.API_VERSION is 7; this harness measures API versions 1" in done.record.failure.message


def test_an_altered_module_is_a_failed_record(measure: Measure, built: tuple[Build, Source], tmp_path: Path) -> None:
    other = tmp_path / "other build"
    shutil.copytree(built[0].folder, other)
    with next((other / "engine").glob("_native*.so")).open("ab") as module:
        module.write(b"\0")
    done = measure("throughput", build_folder=other)
    assert done.returncode == 1
    assert "altered since it was built" in done.record.failure.message


def test_no_record_where_the_request_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text("{}")
    for arguments, says in (
        ([], "usage:"),
        (["absent.json", "out.json"], "absent.json: cannot be read"),
        (["request.json", "out.json"], "request.json: field"),
    ):
        command = [sys.executable, "-m", "flows.measurements.latency", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert says in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_the_wrong_program_for_a_kind(measure: Measure) -> None:
    done = measure("throughput", asked_for="latency")
    assert done.returncode == 2
    assert "field spec.kind: found 'latency': this program measures 'throughput'" in done.output
    assert done.record is None


def test_a_measuring_process_stays_light(measure: Measure, tmp_path: Path) -> None:
    """The whole measurement, engine included, in a process that then says what it has loaded."""
    assert measure("latency", level=1).returncode == 0
    request = next((tmp_path / "a run").glob("*.request.json"))
    code = """
import json, sys
from flows.measurements.latency import KIND
from flows.measurements.program import main
assert main(KIND, sys.argv[1:]) == 0
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    command = [sys.executable, "-c", code, str(request), str(tmp_path / "again.json")]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "engine" in loaded
    assert not loaded & {"prefect", "duckdb", "altair", "torch", "pandas", "scipy", "transformers", "typer", "rich"}
