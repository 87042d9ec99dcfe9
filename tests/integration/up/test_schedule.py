"""The nightly's schedule on the nights on which clocks change: once each, on Prefect's own schedule object."""

import asyncio
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from flows.up_settings import load_up

pytestmark = pytest.mark.prefect
BERLIN = ZoneInfo("Europe/Berlin")


def nights(zone: str, start: datetime, days: int, schedule: str = "0 2 * * *") -> list[datetime]:
    """When the server would start the nightly, as its own scheduler works it out."""
    from prefect.server.schemas.schedules import CronSchedule

    from flows.deployments import night_schedule

    ours = night_schedule(load_up({"timezone": zone, "schedule": schedule}))
    theirs = CronSchedule.model_validate(ours.model_dump())
    dates = asyncio.run(theirs.get_dates(start=start, end=start + timedelta(days=days)))
    return [date.astimezone(ZoneInfo(zone)) for date in dates]


@pytest.mark.parametrize(
    ("first", "of_the_change"),
    [(datetime(2026, 3, 27, 12, tzinfo=BERLIN), "03:00"), (datetime(2026, 10, 23, 12, tzinfo=BERLIN), "02:00")],
    ids=["spring: 02:00 does not exist", "autumn: 02:00 comes twice"],
)
def test_once_on_both_daylight_saving_nights(first: datetime, of_the_change: str) -> None:
    found = nights("Europe/Berlin", first, 4)
    assert [night.date() for night in found] == [first.date() + timedelta(days=day) for day in (1, 2, 3, 4)]
    assert [f"{night:%H:%M}" for night in found] == ["02:00", of_the_change, "02:00", "02:00"]


def test_once_where_the_change_is_asked_for_again_within_the_doubled_hour() -> None:
    """The server asks anew every minute: from inside the second 02:xx it must not come again."""
    within = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    found = nights("Europe/Berlin", within, 1)
    assert [f"{night:%m-%d %H:%M}" for night in found] == ["10-26 02:00"]


def test_the_other_side_of_the_world_and_the_year_as_a_whole() -> None:
    found = nights("Australia/Sydney", datetime(2026, 1, 1, tzinfo=ZoneInfo("Australia/Sydney")), 365)
    assert len(found) == len({night.date() for night in found}) == 365
