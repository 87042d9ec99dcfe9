"""What a search says: in words, as a table, and as the folder's bisect.json and bisect.md."""

import json
from dataclasses import asdict
from pathlib import Path

from flows.bisection import WORDS, Bisected, Step
from flows.folders import RunFolder
from flows.progress import duration
from flows.revisions import subject_of
from flows.summary import markdown_table

HEADINGS = ("commit", "found", "ratio to GOOD", "interval", "pairs", "why")


def headline(state: Bisected, repo: Path) -> str:
    """The commit, or the range, or why there is neither."""
    if state.where is None:
        return state.ended or "interrupted before the bad end was judged"
    loss = next((f" ({step.ratio:.3f} of GOOD)" for step in state.steps if step.commit == state.span.bad and step.ratio), "")
    suspects = state.where.suspects
    if state.where.culprit is not None:
        named = f"{suspects[0][:10]} ({subject_of(repo, suspects[0])})"
        return f"{named} is the first commit with the loss of {state.target}{loss}"
    why = "could not be judged" if state.where.candidate is None else "are not judged yet"
    listed = ", ".join(name[:10] for name in suspects)
    return f"the loss of {state.target}{loss} came with one of {len(suspects)} commits that {why} one by one: {listed}"


def lines(state: Bisected) -> list[str]:
    """Certainty and cost."""
    judged = [step for step in state.steps if step.error]
    end = state.finished or state.began
    said = [f"Certainty: at least {state.certainty:.1%} that all {len(judged)} measured judgements are right."] if judged else []
    measuring = sum(step.wall_s for step in state.steps)
    return [
        *said,
        f"Cost: {state.measurements} measurements in {duration(measuring)}; builds: {state.costs.describe()}; "
        f"{duration((end - state.began).total_seconds())} in all.",
    ]


def rows(state: Bisected) -> list[tuple[str, ...]]:
    """One row a judgement, in the order in which they were made."""
    return [_row(step) for step in state.steps]


def markdown(state: Bisected, repo: Path) -> str:
    """The search for a page or a comment."""
    asked = state.asked
    return "\n".join(
        [
            f"### {headline(state, repo)}",
            "",
            *markdown_table(HEADINGS, rows(state)),
            "",
            *(f"- {line}" for line in lines(state)),
            f"- GOOD is `{asked.good}` ({state.span.good[:10]}), BAD is `{asked.bad}` ({state.span.bad[:10]}), "
            f"{len(state.span.history)} commits from one to the other.",
            "",
        ]
    )


def write(state: Bisected, repo: Path, folder: RunFolder) -> None:
    """Write bisect.json and bisect.md, each whole or not at all, and note the run in the store. Raises StoreError."""
    from storage.runs import store_run

    content = {
        "asked": asdict(state.asked),
        "good": state.span.good,
        "bad": state.span.bad,
        "target": state.target,
        "commits": [node.commit for node in state.span.history],
        "headline": headline(state, repo),
        "suspects": list(state.where.suspects) if state.where else [],
        "first_bad": state.where.culprit if state.where else None,
        "certainty": state.certainty,
        "steps": [asdict(step) for step in state.steps],
        "costs": asdict(state.costs) | {"measurements": state.measurements},
        "began": state.began.isoformat(),
        "finished": state.finished.isoformat() if state.finished else None,
        "exit_code": state.exit_code if state.finished else None,
    }
    for name, text in (("bisect.json", json.dumps(content, indent=1) + "\n"), ("bisect.md", markdown(state, repo))):
        temporary = folder.root / f".{name}.tmp"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(folder.root / name)
    store_run(
        folder.store,
        folder.run_id,
        commit=state.span.bad,
        started_at=state.began,
        finished_at=state.finished,
        exit_code=state.exit_code if state.finished else None,
    )


def _row(step: Step) -> tuple[str, ...]:
    ratio = "-" if step.ratio is None else f"{step.ratio:.3f}"
    spread = "-" if step.low is None or step.high is None else f"{step.low:.3f} to {step.high:.3f}"
    return (step.commit[:10], WORDS[step.found], ratio, spread, str(step.pairs or "-"), step.why.partition("\n")[0])
