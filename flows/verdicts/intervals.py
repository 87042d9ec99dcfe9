"""Intervals on log values, back-transformed: a paired t on log-ratios, an unpaired t between two nights.

The unit of every sample is one engine process (or one pair of them), never one request. scipy is imported on first use only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

POWER = 0.8  # of the minimum detectable effect


@dataclass(frozen=True)
class Scatter:
    """A variance of logarithms learnt elsewhere, and how many degrees of freedom it is worth."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class Summary:
    """Count, mean and standard deviation of the logarithms of positive values; `borrowed` degrees of freedom are in the sd."""

    count: int
    mean: float
    sd: float
    borrowed: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summarise values > 0. Raises ValueError for an empty sample and for a value that has no logarithm."""
        if not values:
            raise ValueError("an empty sample has no summary")
        for value in values:
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"value {value!r} has no logarithm: values must be finite and above 0")
        logs = [math.log(value) for value in values]
        mean = math.fsum(logs) / len(logs)
        if len(logs) == 1 or all(value == values[0] for value in values):
            return cls(len(logs), mean, 0.0)
        return cls(len(logs), mean, math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1)))

    def moderated(self, scatter: Scatter) -> "Summary":
        """With its variance drawn towards one learnt elsewhere, each weighted by its degrees of freedom (Smyth, 2004)."""
        own = self.count - 1
        variance = (own * self.sd**2 + scatter.freedom * scatter.variance) / (own + scatter.freedom)
        return replace(self, sd=math.sqrt(variance), borrowed=scatter.freedom)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the sd."""
        return self.count - 1 + self.borrowed

    @property
    def value(self) -> float:
        """The geometric mean, in the unit of the sample."""
        return math.exp(self.mean)

    @property
    def variance_of_mean(self) -> float:
        return self.sd**2 / self.count


@dataclass(frozen=True)
class Interval:
    """An estimate with its two-sided interval, in the unit of the sample (or as a ratio of two samples)."""

    value: float
    low: float
    high: float
    confidence: float


def interval(sample: Summary, confidence: float, baseline: Summary | None = None) -> Interval:
    """The interval of the sample's geometric mean.

    Where it will be held against a measured baseline, the baseline's own uncertainty is put in, so that the two may be
    compared as if the baseline were exact. Raises ValueError below two values in either.
    """
    half = _half_width(sample, baseline, confidence)
    return Interval(sample.value, math.exp(sample.mean - half), math.exp(sample.mean + half), confidence)


def change(new: Summary, old: Summary, confidence: float) -> Interval:
    """The interval of new / old for two independent samples. Raises ValueError below two values in either."""
    half = _half_width(new, old, confidence)
    difference = new.mean - old.mean
    return Interval(math.exp(difference), math.exp(difference - half), math.exp(difference + half), confidence)


def minimum_detectable_effect(sample: Summary, alpha: float, baseline: Summary | None = None) -> float:
    """The relative distance from the bound (0.05 is 5 %) that this noise and count find with 80 % power."""
    error, freedom = _standard_error(sample, baseline)
    return math.expm1(_detectable_errors(freedom, alpha) * error)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t."""
    from scipy import special  # lazily: not in measuring processes, and it takes a while to load

    return float(special.stdtrit(freedom, probability))


@lru_cache(maxsize=4096)
def _detectable_errors(freedom: float, alpha: float) -> float:
    """How many standard errors away a truth must lie for a two-sided test at `alpha` to see it with 80 % power."""
    from scipy import optimize, special

    critical = t_quantile(1 - alpha / 2, freedom)
    # nctdtr(df, nc, t) is P(T <= t); the far tail adds nothing at this power
    return float(optimize.brentq(lambda shift: 1 - special.nctdtr(freedom, shift, critical) - POWER, 0.0, 4 * critical + 10))


def _half_width(sample: Summary, baseline: Summary | None, confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence!r} must lie between 0 and 1")
    error, freedom = _standard_error(sample, baseline)
    return t_quantile(1 - (1 - confidence) / 2, freedom) * error


def _standard_error(sample: Summary, baseline: Summary | None) -> tuple[float, float]:
    """Standard error of the (difference of the) mean log and its degrees of freedom: the smaller sample's.

    Welch's freedom would give a false FAIL twice as often as promised here: 5 new pairs against 60 old ones, judged far out in
    the tail, borrow the old pairs' freedom just when the new ones happen to scatter little.
    """
    smallest = min(sample.count, baseline.count if baseline else sample.count)
    if smallest < 2:
        raise ValueError(f"a sample of {smallest} has no interval: at least 2 values are needed")
    theirs = baseline.variance_of_mean if baseline else 0.0
    return math.sqrt(sample.variance_of_mean + theirs), min(sample.freedom, baseline.freedom if baseline else sample.freedom)
