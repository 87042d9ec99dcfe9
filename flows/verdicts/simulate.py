"""The whole procedure played many times with known truths: coverage, false verdicts, power. Vectorised, seeded, no clock.

A night has `targets` targets; each pair is two processes whose times scatter by `cv` (coefficient of variation), so a log-ratio
scatters by cv * sqrt(2). `effect` is the true distance from the bound in the good direction: 0.02 is 2 % better than it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flows.verdicts.looks import LookPlan
from flows.verdicts.scatter import BORROWED_FREEDOM

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

PASS, FAIL, OPEN = 1, -1, 0


@dataclass(frozen=True)
class Noise:
    """What scatters a process. slow_share of the processes are `slow_by` slower: the tail that a log-normal has not."""

    cv: float = 0.02
    slow_share: float = 0.0
    slow_by: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.cv < 1:
            raise ValueError(f"cv {self.cv!r} must lie between 0 and 1 (0.02 is 2 %)")
        if not 0 <= self.slow_share < 1 or self.slow_by < 0:
            raise ValueError(
                f"slow_share {self.slow_share!r} must lie in [0, 1) and slow_by {self.slow_by!r} must not be below 0"
            )

    def log_ratios(self, shape: tuple[int, ...], generator: np.random.Generator) -> Floats:
        """Log-ratios of pairs around 0, of that shape."""
        return self._leg(shape, generator) - self._leg(shape, generator)

    def _leg(self, shape: tuple[int, ...], generator: np.random.Generator) -> Floats:
        values = generator.normal(0.0, math.sqrt(math.log1p(self.cv**2)), shape)
        if self.slow_share:
            values += np.log1p(self.slow_by) * (generator.random(shape) < self.slow_share)
        return values


@dataclass(frozen=True)
class NightRates:
    """Shares of simulated nights and targets. A false verdict is a PASS below the bound or a FAIL at or above it."""

    effect: float
    passed: float  # of targets
    failed: float  # of targets
    inconclusive: float  # of targets
    false_nights: float  # of nights, with at least one false verdict
    found_nights: float  # of nights, with the first target FAIL
    mean_pairs: float  # bought per target


def fixed_coverage(pairs: int, confidence: float, noise: Noise, samples: int, seed: int) -> float:
    """Share of paired-t intervals at a fixed count that hold the true ratio."""
    from scipy import special

    values = noise.log_ratios((samples, pairs), np.random.default_rng(seed))
    critical = special.stdtrit(pairs - 1, 1 - (1 - confidence) / 2)
    inside = np.abs(values.mean(axis=1)) <= critical * values.std(axis=1, ddof=1) / math.sqrt(pairs)
    return float(inside.mean())


def looks_coverage(plan: LookPlan, noise: Noise, samples: int, seed: int) -> float:
    """Share of sequences in which EVERY look's interval of a lone target holds the true ratio."""
    values = noise.log_ratios((samples, 1, plan.looks[-1]), np.random.default_rng(seed))
    inside = np.ones((samples, 1), dtype=bool)
    for look in plan.looks:
        inside &= two_sided_p(values[..., :look])[0] >= 1 - plan.confidence(1)
    return float(inside.mean())


def night_rates(effects: tuple[float, ...], plan: LookPlan, noise: Noise, nights: int, seed: int) -> NightRates:
    """Play nights whose targets truly lie `effects` from their bounds."""
    shift = np.log1p(np.array(effects))[:, None]
    values = noise.log_ratios((nights, len(effects), plan.looks[-1]), np.random.default_rng(seed)) + shift
    outcome, pairs = play(values, plan)
    truly_met = np.array(effects) >= 0
    false = np.where(truly_met, outcome == FAIL, outcome == PASS)
    return NightRates(
        effect=effects[0],
        passed=float((outcome == PASS).mean()),
        failed=float((outcome == FAIL).mean()),
        inconclusive=float((outcome == OPEN).mean()),
        false_nights=float(false.any(axis=1).mean()),
        found_nights=float((outcome[:, 0] == FAIL).mean()),
        mean_pairs=float(pairs.mean()),
    )


def found_within(
    loss: float, nights: int, baseline_pairs: int, plan: LookPlan, noise: Noise, *, targets: int, samples: int, seed: int
) -> float:
    """Share of histories in which a target 'no worse than the baseline' FAILs on one of the first nights after a loss.

    All targets lost as much. The baseline was measured once, in `baseline_pairs` pairs, and its error is shared by the nights;
    0 means head to head, where the loss is measured against a base of the same night.
    """
    generator = np.random.default_rng(seed)
    values = noise.log_ratios((samples, nights, targets, plan.looks[-1]), generator) + math.log1p(-loss)
    baseline = noise.log_ratios((samples, 1, targets, baseline_pairs), generator) if baseline_pairs else None
    outcome, _ = play(values, plan, baseline)
    return float((outcome[:, :, 0] == FAIL).any(axis=1).mean())


def play(values: Floats, plan: LookPlan, baseline: Floats | None = None) -> tuple[Ints, Ints]:
    """The looks on log-ratios to the bound [..., targets, pairs]: outcome and pairs bought, both [..., targets].

    The same rules as looks.judge_night, for many nights at once; a test holds the two to each other.
    """
    targets = values.shape[-2]
    levels = np.array([np.nan, *(1 - plan.confidence(sharing) for sharing in range(1, targets + 1))])
    outcome = np.zeros(values.shape[:-1], dtype=np.int64)
    pairs = np.zeros(values.shape[:-1], dtype=np.int64)
    for look in plan.looks:
        pairs[outcome == OPEN] = look
        p, sign = two_sided_p(values[..., :look], baseline, borrow=targets > 1)
        while True:
            still_open = outcome == OPEN
            sharing = (
                still_open.sum(axis=-1, keepdims=True)
                if plan.correction == "holm"
                else np.full((*outcome.shape[:-1], 1), targets)
            )
            decided = still_open & (p < levels[sharing])
            outcome[decided] = sign[decided]
            if plan.correction == "bonferroni" or not decided.any():
                break
    return outcome, pairs


def two_sided_p(values: Floats, baseline: Floats | None = None, *, borrow: bool = False) -> tuple[Floats, Ints]:
    """Two-sided p of mean = 0 (or = the baseline's) along the last axis, and the sign of the mean.

    With `borrow` the targets [..., targets, pairs] learn of their scatter from one another, as flows.verdicts.scatter has it.
    """
    from scipy import special

    count = values.shape[-1]
    mean, scatter = values.mean(axis=-1), values.var(axis=-1, ddof=1)
    freedom = float(count - 1)
    if borrow:
        others = (scatter.sum(axis=-1, keepdims=True) - scatter) / (scatter.shape[-1] - 1)
        scatter = (freedom * scatter + BORROWED_FREEDOM * others) / (freedom + BORROWED_FREEDOM)
        freedom += BORROWED_FREEDOM
    variance = scatter / count
    if baseline is not None:
        n = baseline.shape[-1]
        mean = mean - baseline.mean(axis=-1)
        variance = variance + baseline.var(axis=-1, ddof=1) / n
        freedom = min(freedom, n - 1)
    p = 2 * special.stdtr(freedom, -np.abs(mean) / np.sqrt(variance))
    return p, np.sign(mean).astype(np.int64)
