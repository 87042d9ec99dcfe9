"""The record's file: whole or not at all, exact, strict, and closed to whatever is not a record."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from storage import records
from storage.records import Record, RecordError

ROOT = Path(__file__).parents[3]
FACTORY = Path(__file__).with_name("record_factory.py")


def _load_factory() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_factory", FACTORY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


factory = _load_factory()


def rewrite(path: Path, change: Callable[[dict[str, Any]], None], *, keep_digest: bool = False) -> None:
    """Change a record's JSON, with a digest that fits unless the old one is to be kept."""
    body = json.loads(path.read_text())
    stated = body.pop("digest")
    change(body)
    body["digest"] = stated if keep_digest else records.digest(body)
    path.write_text(json.dumps(body))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A good record's file."""
    file = tmp_path / "report.latency-x1-serial.pair00.attempt1.json"
    records.dump(factory.make_record(), file)
    return file


def test_round_trip_is_exact(tmp_path: Path) -> None:
    for record in factory.make_run({1: 1.0, 2: 1.9, 8: 6.0}, pairs=2):
        file = tmp_path / record.measurement.replace("/", ".")
        records.dump(record, file)
        assert records.load(file) == record


def test_a_failed_record_goes_round_too(tmp_path: Path) -> None:
    for status in ("failed", "timeout", "killed"):
        record = factory.make_failed(status=status, environment=None, engine=None)
        records.dump(record, tmp_path / status)
        assert records.load(tmp_path / status) == record


@given(st.floats(min_value=0, max_value=1e300, allow_nan=False), st.text(max_size=40))
def test_every_float_and_text_survives(value: float, text: str) -> None:
    record = factory.make_record(values={"x": value}, details={text: [value, text, None, True]})
    body = json.loads(json.dumps(record.model_dump(mode="json")))
    assert Record.model_validate(body) == record
    assert records.digest(body) == records.digest(record.model_dump(mode="json"))


def test_nothing_but_the_record_is_left_in_the_folder(path: Path) -> None:
    records.dump(factory.make_record(run_id="another"), path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert records.load(path).run_id == "another"


def test_a_dump_that_cannot_be_written_leaves_the_old_record(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        records.dump(factory.make_record(details={"x": [float("nan")]}), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_anywhere(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(RecordError, match=f"{path.name}: not strict JSON"):
        records.load(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "field 'record_version' is missing"),
        ('{"results": 1}', "field 'record_version' is missing"),
        ('"record_version"', "field 'record_version' is missing"),
        ('{"record_version": 2}', "record_version 2: this version reads 1; install a newer paceline"),
        ('{"record_version": "one"}', "record_version 'one': this version reads 1"),
        ('{"record_version": 1}', "digest None does not match"),
        ('{"record_version": 1, "x": NaN}', "NaN is no JSON number"),
        ('{"record_version": 1, "x": -Infinity}', "-Infinity is no JSON number"),
        ('{"record_version": 1, "x": 1e999}', "1e999 does not fit a float64"),
        ("[" * 100_000, "not strict JSON"),
        ("\x89PNG\r\n", "not strict JSON"),
    ],
)
def test_foreign_files(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "foreign.json"
    file.write_text(text)
    with pytest.raises(RecordError) as caught:
        records.load(file)
    assert str(caught.value).startswith(str(file))
    assert says in str(caught.value)


def test_bytes_that_are_no_text_and_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="binary: not strict JSON"):
        records.load(tmp_path / "binary")
    with pytest.raises(RecordError, match="absent: cannot be read: No such file"):
        records.load(tmp_path / "absent")


def test_an_altered_figure_is_seen(path: Path) -> None:
    def faster(body: dict[str, Any]) -> None:
        body["rounds"][1]["wall_s"] *= 0.5

    rewrite(path, faster, keep_digest=True)
    with pytest.raises(RecordError, match="does not match the content: the file was altered"):
        records.load(path)


def test_an_altered_digest_is_seen(path: Path) -> None:
    body = json.loads(path.read_text())
    body["digest"] = body["digest"][::-1]
    path.write_text(json.dumps(body))
    with pytest.raises(RecordError, match="does not match the content"):
        records.load(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda b: b["spec"].update(level=0), "field spec.level: found 0: .*greater than or equal to 1"),
        (lambda b: b["spec"].update(mode="eager"), "field spec.mode: found 'eager': .*'serial' or 'batch'"),
        (lambda b: b["spec"].update(color="red"), "field spec.color: found 'red': Extra inputs"),
        (lambda b: b["rounds"][0].update(wall_s=-1.0), "field rounds.0.wall_s: found -1.0"),
        (lambda b: b["rounds"][0].update(wall_s="fast" * 100), r"field rounds.0.wall_s: found 'fast.*\.\.\.: Input should be"),
        (lambda b: b["rounds"][0]["requests"][1].pop("e2el_s"), "field rounds.0.requests.1.e2el_s: Field required"),
        (lambda b: b.pop("source"), "field source: Field required"),
        (lambda b: b.update(status="fine"), "field status: found 'fine'"),
        (lambda b: b.update(started_at="2026-03-01T02:00:00"), "field started_at: .*timezone"),
        (lambda b: b.update(status="failed"), "status 'failed' with failure None"),
        (lambda b: b.update(status="invalid"), "must say why"),
        (lambda b: b.update(invalid_because=["slots"]), "status 'ok' with invalid_because"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(path: Path, change: Callable[[dict[str, Any]], None], says: str) -> None:
    rewrite(path, change)
    with pytest.raises(RecordError, match=says) as caught:
        records.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nan_is_refused_where_a_record_is_made() -> None:
    with pytest.raises(ValidationError, match="finite"):
        factory.make_record(values={"ratio": float("nan")})
    with pytest.raises(ValidationError, match="finite"):
        factory.make_round(factory.make_spec(), 0, float("inf"))


def test_instants_are_kept_in_utc() -> None:
    local = datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=2)))
    record = factory.make_record(started_at=local)
    assert record.started_at.tzinfo is UTC
    assert record.model_dump(mode="json")["started_at"] == "2026-03-29T01:30:00Z"


def test_warm_up_rounds_are_not_kept() -> None:
    record = factory.make_record(spec={"warmup": 2, "runs": 3, "level": 4, "new_tokens": 10})
    assert [r.index for r in record.kept_rounds()] == [2, 3, 4]
    assert record.output_tokens() == 3 * 4 * 10


def test_a_record_cannot_be_changed() -> None:
    record = factory.make_record()
    with pytest.raises(ValidationError, match="frozen"):
        record.status = "failed"


def test_importing_records_loads_little() -> None:
    code = "import sys, storage.records; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not {"duckdb", "prefect", "altair", "torch", "pandas", "numpy", "scipy"} & set(loaded)
