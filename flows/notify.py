"""Who hears of a changed verdict or trend: an event on Prefect's bus, and an automation that sends it on to a notification block.

A verdict has changed when it is decided (PASS, FAIL, ERROR) and differs from the last decided one on the same target of the same
series. An undecided night is no change, nor is the first verdict of a series, nor a FAIL that a person
has waived. A step of the trend is told once, by the run that brings it to light.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect.events import emit_event
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from flows.folders import RunFolder
from flows.history import describe_alert

EVENT = "paceline.verdict-changed"
TREND_EVENT = "paceline.trend-changed"
ANNOUNCED = "announced.json"  # in the run's folder: what was said of it, so that a run judged again repeats nothing
AUTOMATION = "paceline: verdict changed"
SUBJECT = "{{ event.payload.subject }}"
BODY = "{{ event.payload.body }}"

_DECIDED = """
WITH run_series AS (
    SELECT run_id, workload, level, min(series_id) AS series, min(started_at) AS measured_at
    FROM legs WHERE mode = 'batch' GROUP BY run_id, workload, level
),
decided AS (
    SELECT run_id, workload, series, name, status, ratio, low, high, direction, target, unit, reason, waived,
        lag(status) OVER (PARTITION BY workload, series, metric, level, name ORDER BY measured_at, run_id) AS before
    FROM verdicts JOIN run_series USING (run_id, workload, level)
    WHERE status <> 'INCONCLUSIVE'
)
SELECT * FROM decided WHERE run_id = ? AND before IS NOT NULL AND before <> status AND waived = '' ORDER BY workload, name
"""


@dataclass(frozen=True)
class Change:
    """A target whose verdict is another than before."""

    name: str
    workload: str
    series: str
    before: str
    now: str
    reason: str

    @property
    def key(self) -> str:
        """What makes it the same change, told again."""
        return f"{self.workload} {self.series} {self.name}: {self.before} -> {self.now}"

    def line(self) -> str:
        """For people: x8 speedup (report): PASS -> FAIL. Why."""
        return f"{self.name} ({self.workload}): {self.before} -> {self.now}. {self.reason}"


def changes(snapshot: Path, run_id: str) -> list[Change]:
    """What this run's verdicts changed, from the store's snapshot. Raises StoreError."""
    from storage.queries import query

    rows: list[dict[Any, Any]] = query(snapshot, _DECIDED, [run_id]).to_dict("records")
    fields = ("name", "workload", "series", "before", "reason")
    return [Change(now=str(row["status"]), **{field: str(row[field] or "") for field in fields}) for row in rows]


def tell_run(folder: RunFolder, link: str | None) -> list[str]:
    """Announce what a run with a summary has changed and nobody has been told of yet; returns it, a line each.

    Raises StoreError.
    """
    found = json.loads(folder.summary_json.read_text(encoding="utf-8"))
    commit, path = str(found["source"]["commit"]), folder.root / ANNOUNCED
    said = set(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else set()
    fresh = [change for change in changes(folder.snapshot, folder.run_id) if change.key not in said]
    alerts = [alert for alert in found.get("alerts", ()) if _alert_key(alert) not in said]
    announce(fresh, folder.run_id, commit, link)
    announce_trend(alerts, folder.run_id, commit, link)
    if fresh or alerts:
        said |= {change.key for change in fresh} | {_alert_key(alert) for alert in alerts}
        path.write_text(json.dumps(sorted(said), indent=1) + "\n", encoding="utf-8")
    return [*(f"verdict changed: {change.line()}" for change in fresh), *map(describe_alert, alerts)]


def announce(found: Sequence[Change], run_id: str, commit: str, link: str | None) -> None:
    """Put one event on the bus for all changed verdicts of a run; nothing where there are none."""
    if not found:
        return
    worst = "worse" if any(change.now != "PASS" for change in found) else "better"
    subject = f"Paceline: {len(found)} verdict{'s' if len(found) > 1 else ''} changed for the {worst} at {commit[:10]}"
    body = _body((change.line() for change in found), run_id, link)
    _emit(EVENT, run_id, {"subject": subject, "body": body, "changes": [vars(change) for change in found]})


def announce_trend(alerts: Sequence[Mapping[str, Any]], run_id: str, commit: str, link: str | None) -> None:
    """Put one event on the bus for all steps of the trend that a run is the first to show; nothing where there are none."""
    if not alerts:
        return
    subject = f"Paceline: {len(alerts)} trend{'s' if len(alerts) > 1 else ''} changed, first seen at {commit[:10]}"
    body = _body(map(describe_alert, alerts), run_id, link)
    _emit(TREND_EVENT, run_id, {"subject": subject, "body": body, "changes": [dict(alert) for alert in alerts]})


def _body(lines: Iterable[str], run_id: str, link: str | None) -> str:
    return "\n".join([*lines, f"run {run_id}", *([link] if link else [])])


def _emit(event: str, run_id: str, payload: dict[str, Any]) -> None:
    emit_event(
        event, resource={"prefect.resource.id": f"paceline.run.{run_id}", "prefect.resource.name": run_id}, payload=payload
    )


def _alert_key(alert: Mapping[str, Any]) -> str:
    """A step of one line in one direction: its place may be estimated a little differently the next time."""
    direction = "up" if alert["step"] > 1 else "down"
    return f"{alert['workload']} {alert['series']} trend of {alert['metric']}@{alert['level']}: {direction}"


async def ensure_automation(block: str | None) -> str:
    """Create, renew or (without a block) remove the automation that notifies. Returns what a person should know.

    `block` is `<type>/<name>` of a Prefect notification block. Where there is none of that name the service runs without: blocks
    are made in the UI of the very server that starts here.
    """
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    async with get_client() as client:
        for old in await client.read_automations_by_name(AUTOMATION):
            await client.delete_automation(old.id)
        if block is None:
            return "changed verdicts are told to nobody (--notify names a block)"
        kind, _, name = block.partition("/")
        try:
            document = await client.read_block_document_by_name(name, kind)
        except ObjectNotFound:
            return f"notify {block}: no such block yet: make it in the UI under Blocks ({kind}, named {name}), then start again"
        await client.create_automation(_automation(document.id))
    return f"changed verdicts go to {block} (automation {AUTOMATION!r})"


def _automation(document: Any) -> AutomationCore:
    trigger = EventTrigger(
        expect={EVENT, TREND_EVENT}, match={"prefect.resource.id": "paceline.run.*"}, posture=Posture.Reactive, threshold=1
    )
    return AutomationCore(
        name=AUTOMATION,
        description="Tells of decided verdicts that are another than before, and of steps of the trend. Made by paceline up.",
        trigger=trigger,
        actions=[SendNotification(block_document_id=document, subject=SUBJECT, body=BODY)],
    )
