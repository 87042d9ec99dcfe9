"""What a validation measures beside its pairs, on a real engine: checks first, and no ratio where one does not hold."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from flow_support import tiny

from flows.folders import RunFolder
from flows.parameters import KINDS
from flows.settings import HostSettings, use_host
from storage.queries import other_figures, parity, query, target_ratios
from storage.records import load

pytestmark = pytest.mark.prefect
SMALL = {"levels": (1, 2), "new_tokens": 8, "runs": 1, "warmup": 0}
WRONG = """

_generate = Session.generate


def _generate_otherwise(self, prompts, max_new_tokens, **options):
    made = _generate(self, prompts, max_new_tokens, **options)
    for one in made[1:]:  # in a batch alone
        if one.logits is not None:
            one.logits[0, 0] += 1
    return made


Session.generate = _generate_otherwise
"""


def run_flow(build: Path, results: Path, run: str, **changes: Any) -> RunFolder:
    from flows.validation import validate

    with use_host(HostSettings(build=build)):
        validate(tiny(results, run=run, **SMALL, **changes), return_state=True)
    return RunFolder(results, run)


def test_parity_comes_first_and_stands_in_store_page_and_summary(prefect_api: None, engine_build: Path, tmp_path: Path) -> None:
    folder = run_flow(engine_build, tmp_path, "held", kinds="parity,reference,occupancy")
    records = sorted((load(path) for path in folder.record_files()), key=lambda record: record.started_at)
    kinds = [record.spec.kind for record in records]
    assert kinds[:2] == ["parity", "reference"]
    assert kinds[-1] == "occupancy"
    assert {record.status for record in records} == {"ok"}
    held = parity(folder.snapshot, "held")
    assert [*zip(held["kind"], held["held"], strict=True)] == [("parity", True), ("reference", True)]
    assert list(held["requests"]) == [3, 2], "levels 1 and 2; prompts of 1 and 16"
    figures = other_figures(folder.snapshot, "held").set_index("name")["value"]
    assert figures["reference_error"] < 0.02
    assert figures["parity_requests_different"] == 0
    assert list(target_ratios(folder.snapshot, "held")["valid"]) == [True, True]
    assert not len(query(folder.snapshot, "FROM exclusions WHERE reason LIKE 'planned%'"))
    summary = json.loads(folder.summary_json.read_text())
    assert [one["kind"] for one in summary["beside"]] == ["occupancy", "parity", "reference"]
    assert "parity: ok, parity_requests 3, parity_requests_different 0" in folder.summary_markdown.read_text()
    page = (folder.root / "index.html").read_text()
    assert "Beside the pairs" in page
    assert "reference_error" in page


@pytest.mark.slow
def test_no_pair_counts_where_parity_is_lost(prefect_api: None, engine_build: Path, tmp_path: Path) -> None:
    wrong = Path(shutil.copytree(engine_build, tmp_path / "wrong"))
    with (wrong / "engine" / "session.py").open("a") as file:
        file.write(WRONG)
    folder = run_flow(wrong, tmp_path, "lost", kinds="parity")
    (lost,) = parity(folder.snapshot, "lost").to_dict("records")
    assert (lost["held"], lost["different"], lost["attempts"]) == (False, 1, 2)
    assert lost["reason"].startswith(
        "parity does not hold: 1 of 3 requests differ between serial and batch; first: level 2, request 1"
    )
    ratios = target_ratios(folder.snapshot, "lost")
    assert list(ratios["valid"]) == [False, False]
    assert all(ratios["broken"])
    summary = json.loads(folder.summary_json.read_text())
    assert summary["exit_code"] == 2
    assert [target["status"] for target in summary["targets"]] == ["ERROR", "ERROR"]
    assert all("parity does not hold" in target["reason"] for target in summary["targets"])


@pytest.mark.slow
def test_every_kind_in_one_run(prefect_api: None, engine_build: Path, tmp_path: Path) -> None:
    folder = run_flow(engine_build, tmp_path, "all", kinds="all", rate_per_s=20)
    records = [load(path) for path in folder.record_files()]
    assert {record.spec.kind for record in records} == {"latency", "throughput", *KINDS}
    assert {record.status for record in records if record.spec.kind != "steady_state"} == {"ok"}
    assert set(other_figures(folder.snapshot, "all")["kind"]) == set(KINDS)
