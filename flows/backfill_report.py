"""What a backfill says, from its backfill.json."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flows.commit_builds import BuildCosts
from flows.commit_trend import Change
from flows.progress import duration


def rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One row a chosen commit, oldest first."""
    done = {one["commit"]: one for one in found["filled"]}
    return [_row(done[commit]) for commit in found["chosen"] if commit in done]


def lines(found: Mapping[str, Any]) -> list[str]:
    """Changes of the trend with the search that would find each one's commit, then the cost."""
    changes = [Change(**change) for change in found["changes"]]
    said = [f"The trend changes: {change.describe()}{_search(change)}" for change in changes]
    measurements = sum(one["measurements"] for one in found["filled"])
    measuring = sum(one["wall_s"] for one in found["filled"])
    total = (datetime.fromisoformat(found["finished"]) - datetime.fromisoformat(found["began"])).total_seconds()
    builds = BuildCosts(**found["costs"]).describe()
    return [*said, f"Cost: {measurements} measurements in {duration(measuring)}; builds: {builds}; {duration(total)} in all."]


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    what = f"{one['what']}: {one['why']}".partition("\n")[0] if one["why"] else str(one["what"])
    minutes = f"{one['wall_s'] / 60:.1f}" if one["wall_s"] else "-"
    return (one["commit"][:10], one["subject"][:40], str(one["measurements"] or "-"), minutes, one["run"] or "-", what)


def _search(change: Change) -> str:
    return f"; paceline bisect {change.good[:10]} {change.bad[:10]} --target x{change.level}" if change.loss else ""
