"""What a level's few pairs may learn of their scatter from the other levels of the same night.

Four pairs know their own scatter badly: with 3 degrees of freedom the quantile is so wide that no sane night is ever decided.
The other levels time the same two legs on the same machine within the same minutes, so their scatter is worth a few degrees of
freedom: the moderated variance of Smyth (Linear models and empirical Bayes methods, 2004), with the weight fixed instead of
estimated from as many groups as there are levels. The weight is small on purpose: levels whose true scatter differs by
a factor of two still keep a night's false verdicts near what is promised (flows.verdicts.simulate, docs/verdicts.md).
"""

import math
from collections.abc import Mapping, Sequence

from flows.verdicts.intervals import Scatter, Summary
from flows.verdicts.judge import PairSample, judged_value, trouble
from flows.verdicts.targets import Target

BORROWED_FREEDOM = 2.0  # degrees of freedom that the other levels are worth, however many they are
_WALL_RATIOS = frozenset({"speedup_vs_serial", "scaling_efficiency", "single_latency_ratio", "e2el_s", "request_throughput"})


def borrowed_scatter(target: Target, samples: Mapping[str, Sequence[PairSample]], targets: Sequence[Target]) -> Scatter | None:
    """The mean variance of the log-ratios of other levels, each level once, or None where there is nothing to learn.

    Only ratios of the wall time of both legs lend and borrow: a percentile of a gap between tokens scatters in a way of its own.
    Two targets on the same pairs are one sample, not two.
    """
    if not _lends(target):
        return None
    seen = {_fingerprint(target, samples[target.name])}
    found: list[Summary] = []
    for other in targets:
        if other.name == target.name or not _lends(other) or trouble(other, samples[other.name]):
            continue
        mark = _fingerprint(other, samples[other.name])
        if len(mark) < 2 or mark in seen:
            continue
        seen.add(mark)
        found.append(Summary.of([math.exp(step) for step in mark]))
    known = sum(summary.count - 1 for summary in found)
    if known < BORROWED_FREEDOM:
        return None
    variance = math.fsum((summary.count - 1) * summary.sd**2 for summary in found) / known
    return Scatter(variance, BORROWED_FREEDOM)


def _lends(target: Target) -> bool:
    return target.leg == "ratio" and target.metric in _WALL_RATIOS


def _fingerprint(target: Target, samples: Sequence[PairSample]) -> tuple[float, ...]:
    """The valid pairs' log-ratios, from the first one's: the same for two targets that read the same pairs in other units."""
    values = [value for s in samples if s.valid and (value := judged_value(target, s)) is not None]
    return tuple(round(math.log(value / values[0]), 9) for value in values)
