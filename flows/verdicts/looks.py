"""When a night may look at its pairs, and how surely each look must speak so that the whole night does.

Pocock's idea, the same nominal alpha at every look, with the constants recomputed for what is done here. His .0221 is for
three looks at equal distances and a known variance; at 5, 10 and 20 pairs with Student's t it lets 5.6 % through in place of 5 %,
and a quarter of it lets a night of four targets go wrong in 5.9 %. flows.verdicts.simulate holds the table to its word.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from flows.verdicts.intervals import Summary
from flows.verdicts.judge import POINT, PairSample, Verdict, judge, trouble
from flows.verdicts.scatter import borrowed_scatter
from flows.verdicts.targets import Target

NIGHT_ALPHA = 0.035  # two-sided over all looks and targets: below 2 % false verdicts a night, whatever the truth
PLANNED_LOOKS = (5, 10, 20)

# Alpha over the three planned looks -> nominal alpha of each look over that alpha (2e7 simulated sequences, t at each look)
_NOMINAL = {0.1: 0.4128, 0.05: 0.3908, 0.04: 0.3851, 0.02: 0.3710, 0.01: 0.3594, 0.005: 0.3521, 0.0025: 0.3470, 0.001: 0.3442}


@dataclass(frozen=True)
class LookPlan:
    """Pairs at which a night looks, its two-sided alpha over all looks and targets, and how the targets share it."""

    looks: tuple[int, ...] = PLANNED_LOOKS
    alpha: float = NIGHT_ALPHA
    correction: Literal["holm", "bonferroni"] = "holm"

    def __post_init__(self) -> None:
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or self.looks[0] < 1:
            raise ValueError(f"looks {self.looks!r} must be rising pair counts from 1")
        if len(self.looks) > 1 and self.looks[0] < 2:
            raise ValueError(f"looks {self.looks!r}: one pair is a {POINT}; the first of several looks needs 2 pairs")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha {self.alpha!r} must lie between 0 and 1")
        if self.correction not in ("holm", "bonferroni"):
            raise ValueError(f"correction {self.correction!r} must be 'holm' or 'bonferroni'")

    @classmethod
    def fixed(cls, pairs: int, alpha: float = NIGHT_ALPHA) -> "LookPlan":
        """One look at a count chosen beforehand: `--pairs N`, and `--quick` with N = 1."""
        return cls(looks=(pairs,), alpha=alpha)

    def next_look(self, pairs: int) -> int | None:
        """The pair count to buy up to from here; None when the plan is spent."""
        return next((look for look in self.looks if look > pairs), None)

    def confidence(self, sharing: int) -> float:
        """Two-sided confidence of every look's interval when `sharing` targets share the night's alpha."""
        return 1 - nominal_alpha(self.alpha / sharing, self.looks)


def nominal_alpha(alpha: float, looks: Sequence[int]) -> float:
    """The alpha of each look so that all together reach `alpha`.

    For looks that have no table it is alpha / looks, which can only be too careful.
    """
    if len(looks) == 1:
        return alpha
    if tuple(looks) != PLANNED_LOOKS or alpha > max(_NOMINAL):
        return alpha / len(looks)
    above = min(a for a in _NOMINAL if a >= alpha)
    below = max((a for a in _NOMINAL if a <= alpha), default=None)
    if below is None:
        return alpha / len(looks)
    if below == above:
        return alpha * _NOMINAL[above]
    share = math.log(alpha / below) / math.log(above / below)
    return alpha * (_NOMINAL[below] + share * (_NOMINAL[above] - _NOMINAL[below]))


def judge_night(
    targets: Sequence[Target],
    samples: Mapping[str, Sequence[PairSample]],
    plan: LookPlan | None = None,
    baselines: Mapping[str, Summary] | None = None,
) -> list[Verdict]:
    """Verdicts of one night, in the targets' order; `samples` and `baselines` are by target name.

    The looks are replayed from the pairs in the order of their numbers, so that a rebuild gives what the night gave: a target
    decided at a look keeps that verdict even if its level was measured on for another's sake. Under Holm the targets still
    undecided share the alpha alone. Pairs beyond the plan are named as excluded; a broken one is an ERROR wherever it stands.
    """
    plan = plan or LookPlan()
    known = baselines or {}
    ordered = {target.name: sorted(samples.get(target.name, ()), key=lambda sample: sample.pair) for target in targets}
    verdicts: dict[str, Verdict] = {}
    for look in plan.looks:
        cuts = {target.name: _until(target, ordered[target.name], look) for target in targets}
        _judge_stage(targets, cuts, plan, known, verdicts)
    return [_name_unused(verdicts[target.name], ordered[target.name]) for target in targets]


def undecided(verdicts: Sequence[Verdict]) -> tuple[Target, ...]:
    """The targets that more pairs could still decide: not PASS, not FAIL, not broken."""
    return tuple(verdict.target for verdict in verdicts if verdict.status == "INCONCLUSIVE")


def _judge_stage(
    targets: Sequence[Target],
    samples: Mapping[str, Sequence[PairSample]],
    plan: LookPlan,
    baselines: Mapping[str, Summary],
    verdicts: dict[str, Verdict],
) -> None:
    """Judge what is open, and again with the larger share whenever that decided something. Writes into `verdicts`."""
    lent = {target.name: borrowed_scatter(target, samples, targets) for target in targets}
    while True:
        open_targets = [target for target in targets if target.name not in verdicts or not verdicts[target.name].decided]
        if not open_targets:
            return
        sharing = len(open_targets) if plan.correction == "holm" else len(targets)
        confidence = plan.confidence(sharing)
        for target in open_targets:
            verdicts[target.name] = judge(
                target,
                samples[target.name],
                confidence=confidence,
                baseline=baselines.get(target.name),
                scatter=lent[target.name],
            )
        if plan.correction == "bonferroni" or not any(verdicts[target.name].decided for target in open_targets):
            return


def _until(target: Target, samples: Sequence[PairSample], look: int) -> Sequence[PairSample]:
    """The samples up to the one that brings the valid count to `look`; all of them where something is broken."""
    if trouble(target, samples):
        return samples
    taken: list[PairSample] = []
    valid = 0
    for sample in samples:
        if valid == look:
            break
        taken.append(sample)
        valid += sample.valid
    return taken


def _name_unused(verdict: Verdict, samples: Sequence[PairSample]) -> Verdict:
    """Every measured pair reaches the verdict or is named."""
    used = verdict.pairs + len(verdict.excluded)
    unused = tuple(f"pair {s.pair}: {s.reason or 'measured after the deciding look'}" for s in samples[used:])
    return replace(verdict, excluded=verdict.excluded + unused)
