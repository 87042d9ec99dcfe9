"""request.json: what is read is what was asked for, and a wrong one is named by file, field and value."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.measurements.idle import IdleExtra
from flows.measurements.request import EngineExtra, RequestError, dump_request, load_request, parse_extra


def body() -> dict[str, Any]:
    return {
        "request_version": 1,
        "run_id": "20260301T020000Z-aaaaaa",
        "measurement": "report/throughput-x4-batch/pair01",
        "spec": {
            "kind": "throughput",
            "workload": "report",
            "mode": "batch",
            "level": 4,
            "tp": 2,
            "slots": 8,
            "context": 48,
            "prompt_tokens": 16,
            "new_tokens": 32,
            "warmup": 1,
            "runs": 5,
            "seed": 7,
            "checkpoint": "synthetic:tiny",
        },
        "build": "/some where/build",
        "source": {"commit": "unknown", "dirty": True, "tree": "ab" * 32},
        "log": None,
    }


def test_a_request_goes_round(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(body()))
    request = load_request(path)
    assert request.spec.level == 4
    assert request.build == Path("/some where/build")
    dump_request(request, tmp_path / "again.json")
    assert load_request(tmp_path / "again.json") == request


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda b: b["spec"].update(level=0), "field spec.level: found 0"),
        (lambda b: b["spec"].update(mode="both"), "field spec.mode: found 'both'"),
        (
            lambda b: b["spec"].update(context=47),
            r"field spec.context: found 47: must be at least prompt_tokens \+ new_tokens = 48",
        ),
        (lambda b: b.update(request_version=2), "field request_version: found 2"),
        (lambda b: b.update(colour="red"), "field colour: found 'red'"),
        (lambda b: b.pop("build"), "field build: Field required"),
        (lambda b: b.update(run_id=""), "field run_id: found ''"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str) -> None:
    wrong = body()
    change(wrong)
    path = tmp_path / "request.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(RequestError, match=says) as caught:
        load_request(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(("text", "says"), [("{", "not JSON"), ("[1]", "found a list"), ("", "not JSON")])
def test_a_file_that_is_no_request(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(text)
    with pytest.raises(RequestError, match=says):
        load_request(path)
    with pytest.raises(RequestError, match=r"absent.json: cannot be read"):
        load_request(tmp_path / "absent.json")


def test_the_kinds_own_options() -> None:
    assert parse_extra(IdleExtra, {"window_s": 2}).window_s == 2.0
    assert parse_extra(EngineExtra, {}) == EngineExtra(isa="auto", prefill_rows=256)
    with pytest.raises(
        RequestError, match=r"spec.extra: field window_s: found 0: .*greater than 0; known options: isa, prefill_rows, window_s"
    ):
        parse_extra(IdleExtra, {"window_s": 0})
    with pytest.raises(RequestError, match=r"spec.extra: field windows: found 1: Extra inputs"):
        parse_extra(IdleExtra, {"windows": 1})
