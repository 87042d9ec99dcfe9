"""What the default of `make validate` buys: simulated runs within its minutes, judged by the product's own procedure.

    python tests/bench/simulate_default_run.py [--runs 400] [--minutes 4] [--looks 3,12 --looks 4,12]

Prints the table of docs/verdicts.md: the share of runs in which all four targets PASS, by the coefficient of variation of a
process. Costs and true ratios are those of the `small` shape at TP4 on 2 cores, as `Level` has them.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np

from flows.verdicts.judge import PairSample
from flows.verdicts.looks import LookPlan, judge_night, undecided
from flows.verdicts.targets import default_targets


@dataclass(frozen=True)
class Level:
    """Seconds that a pair takes, and the true ratio."""

    seconds: float
    ratio: float


LEVELS = {1: Level(8.0, 1.00), 2: Level(10.5, 1.93), 4: Level(16.0, 3.45), 8: Level(26.0, 5.45)}
SPREADS = (0.005, 0.01, 0.02, 0.03, 0.04)  # coefficients of variation of one process


def one_run(plan: LookPlan, minutes: float, spread: float, generator: np.random.Generator) -> bool:
    """Play one run; whether every target passed."""
    targets = default_targets()
    samples: dict[str, list[PairSample]] = {target.name: [] for target in targets}
    left = minutes * 60
    verdicts = judge_night(targets, samples, plan)
    wanted = list(targets)
    for look in plan.looks:
        open_now = list(wanted)
        while open_now:
            fewest = min(len(samples[t.name]) for t in open_now)
            target = generator.choice([t for t in open_now if len(samples[t.name]) == fewest])  # type: ignore[arg-type]
            level = LEVELS[target.level]
            if left < level.seconds or len(samples[target.name]) >= look:
                open_now.remove(target)
                continue
            left -= level.seconds
            noise = generator.normal(0.0, spread * math.sqrt(2))
            samples[target.name].append(PairSample(len(samples[target.name]), 1.0, level.ratio * math.exp(noise)))
        verdicts = judge_night(targets, samples, plan)
        wanted = list(undecided(verdicts))
    return all(verdict.status == "PASS" for verdict in verdicts)


def share(looks: tuple[int, ...], minutes: float, spread: float, runs: int) -> float:
    """Share of runs in which everything passed."""
    plan = LookPlan(looks=looks)
    generator = np.random.default_rng([looks[0], looks[-1], int(spread * 1e4)])
    return sum(one_run(plan, minutes, spread, generator) for _ in range(runs)) / runs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--looks", action="append", help="planned looks; may be given several times")
    given = parser.parse_args()
    print("| looks |" + "".join(f" {spread:.1%} a process |" for spread in SPREADS))
    print("|---|" + "---|" * len(SPREADS))
    for text in given.looks or ["3", "4", "3,12", "4,12", "6,12"]:
        looks = tuple(int(part) for part in text.split(","))
        row = [f" {share(looks, given.minutes, spread, given.runs):.0%} |" for spread in SPREADS]
        print(f"| {text} |" + "".join(row), flush=True)


if __name__ == "__main__":
    main()
