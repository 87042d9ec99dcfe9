"""What a comparison says: on a terminal, and as markdown for a review comment."""

from collections.abc import Sequence

from flows.compare import Compared, Comparison
from flows.summary import markdown_table
from flows.verdicts.judge import Verdict
from flows.verdicts.overall import Overall

HEADINGS = ("leg", "metric", "base", "head", "head / base", "interval", "pairs", "verdict")
_METRIC = {"e2el_s": ("request latency", "s"), "request_throughput": ("throughput", "req/s")}


def rows(compared: Compared) -> list[tuple[str, ...]]:
    """One row a leg and level: figures of both sides, the ratio with its interval, the verdict."""
    return [_row(verdict, compared) for verdict in compared.verdicts]


def lines(compared: Compared) -> list[str]:
    """What must be known beside the table."""
    said = [" ".join([f"{v.target.name}: {v.reason}", *v.flags]) for v in compared.verdicts if v.status != "PASS" or v.flags]
    return [*said, *compared.notes]


def markdown(comparison: Comparison, compared: Compared, found: Overall) -> str:
    """A review comment: the headline, one table, what must be known, and how it was measured, folded away."""
    parameters = comparison.parameters
    confidences = [verdict.confidence for verdict in compared.verdicts if verdict.confidence is not None]
    sure = f"intervals of {min(confidences):.1%} to {max(confidences):.1%} confidence, " if confidences else ""
    order = "in turns, round by round" if parameters.in_turns else "one right after the other in random order"
    return "\n".join(
        [
            f"### {found.headline.partition(': ')[0]}: {comparison.head.label} against {comparison.base.label}",
            "",
            *markdown_table(HEADINGS, rows(compared)),
            "",
            *(f"- {line}" for line in lines(compared)),
            "",
            "<details><summary>How it was measured</summary>",
            "",
            f"The same leg of both builds, {order}, each in a process of its own: "
            f"{sure}a loss beyond {comparison.margin:.0%} is a FAIL, shared by {len(compared.verdicts)} targets. "
            f"{compared.wall_s:.0f} s, checkpoint `{parameters.checkpoint}`, TP {parameters.tp}, "
            f"workload {parameters.workload} ({parameters.prompt_tokens} + {parameters.new_tokens} tokens, "
            f"{parameters.warmup} + {parameters.runs} rounds). Exit code {found.exit_code}.",
            "",
            "</details>",
            "",
        ]
    )


def _row(verdict: Verdict, compared: Compared) -> tuple[str, ...]:
    what, unit = _METRIC[verdict.target.metric]
    valid = [s for s in compared.samples[verdict.target.name] if s.valid]
    base, head = (_mean([s.serial for s in valid]), _mean([s.batch for s in valid]))
    spread = "-" if verdict.low is None or verdict.high is None else f"{verdict.low:.3f} to {verdict.high:.3f}"
    ratio = "-" if verdict.ratio is None else f"{verdict.ratio:.3f}"
    figures = [f"{value:.4g} {unit}" if value is not None else "-" for value in (base, head)]
    return (verdict.target.name, what, *figures, ratio, spread, str(verdict.pairs), verdict.status)


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
