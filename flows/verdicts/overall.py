"""A night's verdicts in one exit code and one line."""

from collections.abc import Sequence
from typing import NamedTuple

from flows.verdicts.judge import Status, Verdict

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_ERROR = 2
EXIT_INCONCLUSIVE = 3

_ORDER: tuple[Status, ...] = ("ERROR", "FAIL", "INCONCLUSIVE", "PASS")
_EXIT: dict[Status, int] = {"PASS": EXIT_PASS, "FAIL": EXIT_FAIL, "ERROR": EXIT_ERROR, "INCONCLUSIVE": EXIT_INCONCLUSIVE}


class Overall(NamedTuple):
    """exit_code: 0 all PASS, 1 a FAIL, 3 nothing worse than INCONCLUSIVE, 2 an ERROR or nothing judged."""

    exit_code: int
    headline: str


def overall(verdicts: Sequence[Verdict]) -> Overall:
    """The worst verdict decides; a waived FAIL counts as seen, not as failed. Flags and waivers are in the headline."""
    if not verdicts:
        return Overall(EXIT_ERROR, "ERROR: no target was judged.")
    counted = [verdict for verdict in verdicts if not (verdict.status == "FAIL" and verdict.waived)]
    worst = next((status for status in _ORDER if any(v.status == status for v in counted)), None)
    parts = [_count(verdicts)]
    if worst not in (None, "PASS"):
        parts.append("; ".join(f"{v.target.name}: {_clause(v.reason)}" for v in counted if v.status == worst))
    parts += [f"waived: {v.target.name} ({v.waived})" for v in verdicts if v.status == "FAIL" and v.waived]
    parts += [f"beware: {v.target.name}: {_clause(flag)}" for v in verdicts for flag in v.flags]
    return Overall(_EXIT[worst] if worst else EXIT_PASS, f"{worst or 'WAIVED'}: " + ". ".join(parts) + ".")


def _count(verdicts: Sequence[Verdict]) -> str:
    """`3 of 4 targets pass, 1 fails`."""
    numbers: dict[Status, int] = {status: sum(v.status == status for v in verdicts) for status in _ORDER}
    text = f"{numbers['PASS']} of {len(verdicts)} targets pass"
    if numbers["FAIL"]:
        text += f", {numbers['FAIL']} fail"
    if numbers["INCONCLUSIVE"]:
        text += f", {numbers['INCONCLUSIVE']} inconclusive"
    if numbers["ERROR"]:
        text += f", {numbers['ERROR']} without a verdict"
    return text


def _clause(sentence: str) -> str:
    return sentence.strip().removesuffix(".")
