"""Parity before the pairs: what does not hold takes every pair of its run with it, and is no restless machine's doing."""

from typing import Any

import pytest

from storage.ingest import ingest
from storage.queries import other_figures, parity, target_ratios

RUN = "20260301T020000Z-aaaaaa"


def checked(kit: Any, kind: str, different: int, **changes: Any) -> Any:
    """A record of a check with 15 requests."""
    values = {f"{kind}_requests": 15.0, f"{kind}_requests_different": float(different)}
    spec = {"kind": kind, "mode": "batch", "level": 8, "pair": 0, **changes.pop("spec", {})}
    make = kit.make.make_failed if different else kit.make.make_record
    named = {"measurement": f"report/{kind}", "values": values, "rounds": [], "occupancy": None}
    return make(spec=spec, **named, **changes)


def pairs_and(kit: Any, *records: Any) -> list[Any]:
    return [*kit.make.make_run({1: 1.0, 2: 1.8}, pairs=2, cv=0.0), *records]


def test_what_holds_changes_nothing(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(pairs_and(kit, checked(kit, "parity", 0), checked(kit, "reference", 0))))
    found = parity(results.root, RUN)
    rows = list(zip(found["kind"], found["requests"], found["different"], found["held"], found["reason"], strict=True))
    assert rows == [("parity", 15, 0, True, ""), ("reference", 15, 0, True, "")]
    assert target_ratios(results.root, RUN)["valid"].all()


@pytest.mark.parametrize("kind", ["parity", "reference"])
def test_a_difference_breaks_every_pair(kit: Any, results: Any, kind: str) -> None:
    """A second attempt that finds none does not unsay it: equal bits do not come and go."""
    lost = checked(kit, kind, 2, message="2 of 15 requests differ")
    ingest(results.store, results.write(pairs_and(kit, lost, checked(kit, kind, 0, spec={"attempt": 2}))))
    (found,) = parity(results.root, RUN).to_dict("records")
    assert (found["held"], found["attempts"], found["different"]) == (False, 2, 2)
    ratios = target_ratios(results.root, RUN)
    assert not ratios["valid"].any()
    assert ratios["broken"].all()
    assert set(ratios["reason"]) == {f"{kind} does not hold: 2 of 15 requests differ"}


def test_parity_that_could_not_be_looked_at_breaks_them_too(kit: Any, results: Any) -> None:
    died = kit.make.make_failed(
        status="killed", message="ended by SIGKILL", measurement="report/parity", spec={"kind": "parity", "pair": 0}
    )
    ingest(results.store, results.write(pairs_and(kit, died)))
    assert set(target_ratios(results.root, RUN)["reason"]) == {"parity does not hold: ended by SIGKILL"}


def test_no_reference_to_ask_is_no_fault_of_the_engine(kit: Any, results: Any) -> None:
    absent = kit.make.make_record(
        status="invalid",
        invalid_because=["reference: torch is not installed here"],
        measurement="report/reference",
        spec={"kind": "reference", "pair": 0},
    )
    ingest(results.store, results.write(pairs_and(kit, absent)))
    (found,) = parity(results.root, RUN).to_dict("records")
    assert found["held"] is None
    assert found["reason"] == "reference does not hold: reference: torch is not installed here"
    assert target_ratios(results.root, RUN)["valid"].all()


def test_figures_of_other_kinds_stand_by_name(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(pairs_and(kit, checked(kit, "parity", 0))))
    found = other_figures(results.root, RUN)
    assert list(found["name"]) == ["parity_requests", "parity_requests_different"]
    assert set(found["measurement"]) == {"report/parity"}
