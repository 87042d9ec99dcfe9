"""What a night puts on the list for afterwards: a bisection for each loss that its trend shows, where the plan asks for it."""

from typing import Any

from flows.folders import RunFolder
from flows.night_plan import NightEntry
from flows.progress import report

_OF_A_SEARCH = {"levels", "looks", "pairs", "quick", "canary", "budget_minutes", "results", "run"}  # which the search decides


def queue_bisects(entry: NightEntry, folder: RunFolder) -> list[str]:
    """Queue a run of the deployment `bisect` for each loss that this run was the first to show. Returns what was queued.

    Where the deployment is not served, that is said and nothing is queued.
    """
    if not entry.bisect:
        return []
    queued = []
    for asked in searches(entry, folder):
        words = f"bisect {asked['good'][:10]}..{asked['bad'][:10]} --target {asked['target']}"
        try:
            _start(asked, words)
        except Exception as error:  # the night's own result stands, whatever the server says
            report().note(f"{entry.name}: {words} could not be queued: {type(error).__name__}: {error}")
        else:
            report().note(f"{entry.name}: queued {words}")
            queued.append(words)
    return queued


def searches(entry: NightEntry, folder: RunFolder) -> list[dict[str, Any]]:
    """Parameters of the bisections that a run's changes ask for: losses alone, the worst change of a level once."""
    from storage.queries import change_points

    measure = entry.parameters.model_dump(mode="json", exclude=_OF_A_SEARCH, exclude_defaults=True)
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in change_points(folder.snapshot, folder.run_id).to_dict("records"):
        rises_badly = str(row["metric"]).endswith("latency_ratio")
        if (row["step"] > 1) == rises_badly:
            ends = (row["good"], row["bad"], int(row["level"]))
            found.setdefault(ends, {"good": ends[0], "bad": ends[1], "target": f"x{ends[2]}", "measure": measure})
    return list(found.values())


def _start(asked: dict[str, Any], name: str) -> None:
    from prefect.deployments import run_deployment

    run_deployment("bisect/bisect", parameters={"parameters": asked}, flow_run_name=name, timeout=0, as_subflow=False)
