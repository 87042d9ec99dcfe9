"""Expected durations and the deadlines drawn from them."""

from flows.deadlines import Expectations
from flows.parameters import ValidationParameters
from flows.plan import measurement_of
from storage.records import Spec


def spec(level: int, mode: str) -> Spec:
    return measurement_of(ValidationParameters(), 1, level, "serial" if mode == "serial" else "batch", 0).spec


def test_nothing_known_gets_the_longest_time() -> None:
    assert Expectations(longest_s=600).deadline_s(spec(8, "serial")) == 600


def test_serial_grows_with_the_level_and_batch_does_not() -> None:
    expectations = Expectations(longest_s=600)
    assert expectations.expected_s(spec(8, "serial")) > 4 * expectations.expected_s(spec(1, "serial"))
    assert expectations.expected_s(spec(8, "batch")) == expectations.expected_s(spec(1, "batch"))


def test_a_measured_duration_replaces_the_guess() -> None:
    expectations = Expectations(longest_s=600)
    for wall_s in (20.0, 30.0):
        expectations.observe(spec(8, "serial"), wall_s)
    assert expectations.expected_s(spec(8, "serial")) == 25.0
    assert 25.0 > expectations.expected_s(spec(4, "serial")) > 5.0


def test_an_engine_three_times_slower_still_finishes() -> None:
    expectations = Expectations(longest_s=600)
    expectations.observe(spec(2, "serial"), 300.0)
    for level, mode in ((2, "serial"), (8, "serial"), (8, "batch")):
        asked = spec(level, mode)
        assert expectations.deadline_s(asked) > 3 * expectations.expected_s(asked)


def test_short_measurements_keep_a_least_deadline() -> None:
    expectations = Expectations(longest_s=600)
    expectations.observe(spec(2, "serial"), 0.5)
    assert expectations.deadline_s(spec(2, "serial")) == 60
