"""What a person decided: a known change accepted as the new baseline, one target waived until a date. Pure; storage keeps it.

The baseline of a target is the last commit of its series, in topological order, that passed or was accepted. Nights on builds
with the baseline's own binary add to it: they measured the same thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from flows.verdicts.intervals import Summary
from flows.verdicts.judge import Status, Verdict
from flows.verdicts.series import same_binary


@dataclass(frozen=True)
class Acceptance:
    """A commit taken as the new baseline, for one target or (target None) for all."""

    commit: str
    because: str
    target: str | None = None

    def __post_init__(self) -> None:
        _need_text("commit", self.commit)
        _need_text("because", self.because)


@dataclass(frozen=True)
class Waiver:
    """A target whose FAIL does not count up to and including `until`."""

    target: str
    until: date
    because: str

    def __post_init__(self) -> None:
        _need_text("target", self.target)
        _need_text("because", self.because)


@dataclass(frozen=True)
class PastNight:
    """One target on one commit, as measured on one night of the series in question.

    position is the commit's topological rank (larger is later), None where it has no place in the history. values are the judged
    figures of the valid pairs, in the target's unit.
    """

    commit: str
    position: int | None
    target: str
    status: Status
    values: tuple[float, ...]
    binary: str = ""  # the build's content hash


@dataclass(frozen=True)
class Baseline:
    """What relative bounds are held against."""

    commit: str
    summary: Summary
    why: str  # "passed", or "accepted: ..." with the person's words
    nights: int


def find_baseline(
    target: str, history: Sequence[PastNight], acceptances: Sequence[Acceptance], before: int | None = None
) -> Baseline | None:
    """The target's baseline among the placed commits (those before position `before`, where given), or None.

    Commits without a place in the history (a dirty tree, a rebased-away commit) are no baseline.
    """
    placed = [
        n
        for n in history
        if n.target == target and n.position is not None and n.values and (before is None or n.position < before)
    ]
    words = {a.commit: a.because for a in acceptances if a.target in (None, target)}
    eligible = [n for n in placed if n.status == "PASS" or n.commit in words]
    if not eligible:
        return None
    latest = max(eligible, key=lambda night: night.position or 0)
    same = [n for n in placed if n.commit == latest.commit or same_binary(n.binary, latest.binary)]
    summary = Summary.of([value for night in same for value in night.values])
    why = f"accepted: {words[latest.commit]}" if latest.commit in words else "passed"
    return Baseline(latest.commit, summary, why, len(same))


def apply_waivers(verdicts: Sequence[Verdict], waivers: Sequence[Waiver], today: date) -> list[Verdict]:
    """Mark each FAIL whose target is waived today; an expired waiver is named on the FAIL that it no longer covers.

    An ERROR is never waived: nothing was measured.
    """
    return [_waive(verdict, [w for w in waivers if w.target == verdict.target.name], today) for verdict in verdicts]


def _waive(verdict: Verdict, waivers: Sequence[Waiver], today: date) -> Verdict:
    if verdict.status != "FAIL" or not waivers:
        return verdict
    last = max(waivers, key=lambda waiver: waiver.until)
    if today <= last.until:
        return replace(verdict, waived=f"until {last.until.isoformat()}: {last.because}")
    return verdict.with_flag(f"its waiver ended on {last.until.isoformat()} ({last.because}).")


def _need_text(field: str, value: str) -> None:
    if not value.strip():
        raise ValueError(f"{field} {value!r}: a text is needed")
