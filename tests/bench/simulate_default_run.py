"""What the default of `make validate` buys: simulated runs within its minutes, judged by the product's own procedure.

    python tests/bench/simulate_default_run.py [--nights 400] [--minutes 4] [--runs 3] [--looks 4,16]

Prints the table of docs/verdicts.md: the share of runs in which all four targets PASS, by the coefficient of variation of a
process that runs 5 rounds; `--rounds-share` of its variance comes from the rounds, and so grows where fewer are run. Costs
and true ratios are those of the `small` shape at TP4 on 2 cores.
"""

import argparse
import math

import numpy as np

from flows.verdicts.judge import PairSample
from flows.verdicts.looks import LookPlan, judge_night, undecided
from flows.verdicts.targets import default_targets

RATIOS = {1: 1.00, 2: 1.93, 4: 3.45, 8: 5.45}
ROUND_S = {1: 0.86, 2: 1.33, 4: 2.20, 8: 4.00}  # a round of both legs
START_S = 2.2  # of both processes, with what the flow does between them
SPREADS = (0.005, 0.01, 0.02, 0.03, 0.04)  # coefficients of variation of one process


def one_night(plan: LookPlan, minutes: float, runs: int, spread: float, generator: np.random.Generator) -> bool:
    """Play one validation; whether every target passed."""
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
            seconds = START_S + (1 + runs) * ROUND_S[target.level]
            if left < seconds or len(samples[target.name]) >= look:
                open_now.remove(target)
                continue
            left -= seconds
            noise = generator.normal(0.0, spread * math.sqrt(2))
            samples[target.name].append(PairSample(len(samples[target.name]), 1.0, RATIOS[target.level] * math.exp(noise)))
        verdicts = judge_night(targets, samples, plan)
        wanted = list(undecided(verdicts))
    return all(verdict.status == "PASS" for verdict in verdicts)


def share(looks: tuple[int, ...], given: argparse.Namespace, spread: float) -> float:
    """Share of validations in which everything passed."""
    plan = LookPlan(looks=looks)
    spread *= math.sqrt(1 - given.rounds_share + given.rounds_share * 5 / given.runs)
    generator = np.random.default_rng([looks[0], looks[-1], given.runs, int(spread * 1e4)])
    return sum(one_night(plan, given.minutes, given.runs, spread, generator) for _ in range(given.nights)) / given.nights


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=400, help="validations to play for each figure")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--runs", type=int, default=5, help="rounds kept in a process")
    parser.add_argument("--rounds-share", type=float, default=0.5, help="of the variance of a process of 5 rounds")
    parser.add_argument("--looks", action="append", help="planned looks; may be given several times")
    given = parser.parse_args()
    print(f"| looks, {given.runs} rounds |" + "".join(f" {spread:.1%} |" for spread in SPREADS))
    print("|---|" + "---|" * len(SPREADS))
    for text in given.looks or ["3", "4", "3,12", "4,12", "4,16"]:
        looks = tuple(int(part) for part in text.split(","))
        print(f"| {text} |" + "".join(f" {share(looks, given, spread):.0%} |" for spread in SPREADS), flush=True)


if __name__ == "__main__":
    main()
