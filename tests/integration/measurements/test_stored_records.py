"""Real records in the store: the figures that measuring programs write are those that the views ask for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import queries
from storage.ingest import ingest
from storage.records import dump

pytestmark = pytest.mark.timeout(900)  # the first test may have to build the engine


def test_decode_steps_meet_the_machine_probe(measure: Callable[..., Any], tmp_path: Path) -> None:
    legs = [measure("throughput", mode=mode) for mode in ("serial", "batch")]
    probe = measure("machine", level=1, extra={"gib": 0.125, "passes": 2})
    folder = tmp_path / "results/test/records"
    folder.mkdir(parents=True)
    for number, done in enumerate((*legs, probe)):
        assert done.returncode == 0, done.output
        dump(done.record, folder / f"{number}.attempt1.json")
    report = ingest(tmp_path / "results", sorted(folder.iterdir()))
    assert (report.added, report.rejected) == (3, [])
    found = queries.bandwidth_fraction(tmp_path / "results").set_index("mode")
    for done in legs:
        values = done.record.values
        reached = values["decode_step_bytes"] / values["decode_step_s"] / probe.record.values["read_bandwidth_bytes_per_s"]
        assert found.loc[done.record.spec.mode, "bandwidth_fraction"] == pytest.approx(reached)
        assert reached > 0
    assert set(queries.occupancy(tmp_path / "results", "test")["mode"]) == {"serial", "batch"}
