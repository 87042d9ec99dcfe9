"""`paceline selfcheck`: does the procedure keep its promises at this machine's noise? Simulated nights, and goals."""

from collections.abc import Sequence
from dataclasses import dataclass

from flows.verdicts.looks import LookPlan
from flows.verdicts.simulate import NightRates, Noise, fixed_coverage, found_within, looks_coverage, night_rates

EFFECTS = (0.0, 0.02, -0.02, 0.05, -0.05)
SEED = 20260101
LOSS = 0.03
NIGHTS_TO_FIND = 3


@dataclass(frozen=True)
class Goal:
    """A promise, what the simulation found, and the range it has to lie in."""

    name: str
    found: float
    low: float
    high: float

    @property
    def met(self) -> bool:
        return self.low <= self.found <= self.high


@dataclass(frozen=True)
class SelfCheck:
    noise: Noise
    plan: LookPlan
    rates: tuple[NightRates, ...]  # one for each of EFFECTS, all targets equally far from their bounds
    goals: tuple[Goal, ...]

    @property
    def passed(self) -> bool:
        return all(goal.met for goal in self.goals)


def selfcheck(noise: Noise | None = None, plan: LookPlan | None = None, *, targets: int = 4, nights: int = 20_000) -> SelfCheck:
    """Play the procedure at the given noise. Seconds of work; the same figures every time."""
    noise, plan = noise or Noise(), plan or LookPlan()
    if plan.looks[0] < 2:
        raise ValueError(f"looks {plan.looks!r}: a {plan.looks[0]}-pair night has no interval to check")
    rates = tuple(night_rates((effect,) * targets, plan, noise, nights, SEED + number) for number, effect in enumerate(EFFECTS))
    one_target = LookPlan(plan.looks, 0.05, plan.correction)
    coverages = [
        Goal(f"coverage of a 95 % interval at {look} pairs", fixed_coverage(look, 0.95, noise, 2 * nights, SEED), 0.94, 0.96)
        for look in plan.looks
    ]
    goals = (
        *coverages,
        Goal("coverage of all looks together at 95 %", looks_coverage(one_target, noise, 2 * nights, SEED + 10), 0.94, 0.96),
        Goal("nights of A/A with a false verdict, bounds at the truth", rates[0].false_nights, 0.0, 0.02),
        Goal(
            f"a {LOSS:.0%} loss found head to head within {NIGHTS_TO_FIND} nights",
            found_within(LOSS, NIGHTS_TO_FIND, 0, plan, noise, targets=targets, samples=nights // 4, seed=SEED + 11),
            0.95,
            1.0,
        ),
        Goal(
            f"a {LOSS:.0%} loss against a baseline of 60 pairs found within {NIGHTS_TO_FIND} nights",
            found_within(LOSS, NIGHTS_TO_FIND, 60, plan, noise, targets=targets, samples=nights // 4, seed=SEED + 12),
            0.95,
            1.0,
        ),
    )
    return SelfCheck(noise, plan, rates, goals)


def as_markdown(check: SelfCheck) -> str:
    """The simulation table and the goals, as docs/verdicts.md and the command print them."""
    looks = ", ".join(str(look) for look in check.plan.looks)
    lines = [
        f"Noise: {check.noise.cv:.1%} a process. Looks at {looks} pairs, alpha {check.plan.alpha:g} ({check.plan.correction}).",
        "",
        "| true distance from the bound | PASS | FAIL | INCONCLUSIVE | nights with a false one | pairs a target |",
        "|---|---|---|---|---|---|",
        *(_row(rate) for rate in check.rates),
        "",
        "| goal | found | wanted | |",
        "|---|---|---|---|",
        *(f"| {g.name} | {g.found:.2%} | {_range(g)} | {'met' if g.met else 'NOT MET'} |" for g in check.goals),
    ]
    return "\n".join(lines)


def _row(rate: NightRates) -> str:
    shares: Sequence[float] = (rate.passed, rate.failed, rate.inconclusive, rate.false_nights)
    return f"| {rate.effect:+.0%} | " + " | ".join(f"{share:.2%}" for share in shares) + f" | {rate.mean_pairs:.1f} |"


def _range(goal: Goal) -> str:
    if goal.low == 0:
        return f"at most {goal.high:.0%}"
    return f"at least {goal.low:.0%}" if goal.high == 1 else f"{goal.low:.0%} to {goal.high:.0%}"
