"""The commit that a loss came with: GOOD against one suspect after the other, each a paired comparison with a verdict.

GOOD against BAD comes first and says how large the loss is; a suspect is then bad where it surely has lost more than half of
that (in logarithms), good where it surely has not. A comparison buys pairs up to the last look; what then is still open, does not
build or cannot be measured is passed over.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path

from flows.admission import refuse_unfit_for
from flows.build import BuildError
from flows.commit_builds import BuildCosts, CommitBuilds, Engine, Unmeasurable
from flows.commit_range import Span, between
from flows.compare import Compared, Comparison, Side, compare, keep
from flows.folders import RunFolder
from flows.parameters import ValidationParameters
from flows.plan import Mode
from flows.progress import report
from flows.settings import HostSettings
from flows.source import SourceError, find_repo
from flows.verdicts.judge import Status
from flows.verdicts.looks import NIGHT_ALPHA
from flows.verdicts.overall import overall
from flows.verdicts.search import Found, Standing, standing, steps_needed
from flows.verdicts.targets import TargetError, load_targets

LOOKS, MINUTES = (3, 6, 12, 24), 30.0  # of each comparison, where nothing else is asked for: pairs are bought up to the last look
MOST_MARGIN = 0.95  # of a comparison
WORDS: dict[Found, str] = {"good": "good", "bad": "bad", "skip": "passed over"}
_FOUND: dict[Status, Found] = {"PASS": "good", "FAIL": "bad"}


@dataclass(frozen=True)
class Asked:
    """A search: names of both ends, the target, and the loss from BAD on which it is worth searching at all."""

    good: str
    bad: str
    target: str
    margin: float = 0.03
    retry: bool = False  # builds that are known to fail


@dataclass(frozen=True)
class Step:
    """One suspect judged. ratio is suspect / GOOD of the target's figure, with its interval; run holds the records."""

    commit: str
    found: Found
    why: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    measurements: int = 0
    wall_s: float = 0.0
    error: float = 0.0  # the most that this judgement can be wrong with
    run: str = ""


@dataclass
class Bisected:
    """A search, going on or ended."""

    asked: Asked
    span: Span
    target: str  # as comparisons name it: "batch at 8"
    costs: BuildCosts
    began: datetime
    steps: list[Step] = field(default_factory=list)
    ended: str = ""  # why there was nothing to search, in a sentence
    where: Standing | None = None
    finished: datetime | None = None

    @property
    def certainty(self) -> float:
        """The least probability that every judgement was right."""
        return 1 - sum(step.error for step in self.steps)

    @property
    def measurements(self) -> int:
        return sum(step.measurements for step in self.steps)

    @property
    def exit_code(self) -> int:
        """0 one commit is left, 1 BAD has not lost, 3 several are left or the ends cannot be told apart."""
        if self.where is not None:
            return 0 if self.where.culprit else 3
        return 1 if self.steps and self.steps[-1].found == "good" else 3


def parse_target(text: str, targets_file: Path | None = None) -> tuple[int, Mode]:
    """Level and leg of `x8`, `batch at 8`, `serial at 4`, or the name of a target of validations. Raises TargetError.

    A ratio stands for its batch leg.
    """
    match = re.fullmatch(r"(?:(batch|serial) at |x)?(\d{1,4})", text.strip())
    if match and int(match[2]) >= 1:
        return int(match[2]), "serial" if match[1] == "serial" else "batch"
    known = load_targets(targets_file)
    for target in known:
        if target.name == text:
            return target.level, "serial" if target.leg == "serial" else "batch"
    names = ", ".join(repr(target.name) for target in known)
    raise TargetError(f"target {text!r}: write x8, 'batch at 8' or 'serial at 8', or one of {names}")


def bisect(asked: Asked, parameters: ValidationParameters, host: HostSettings, folder: RunFolder) -> Bisected:
    """Search, and keep what is found in the folder's bisect.json after every step.

    Raises TargetError, SourceError, SettingsError, StoreError, and BuildError where the good or the bad end does not build.
    """
    from flows.bisection_report import write

    level, mode = parse_target(asked.target, host.targets)
    repo = find_repo(host.repo)
    span = between(repo, asked.good, asked.bad)
    earlier = _earlier_steps(folder, asked, span)
    builds = CommitBuilds(repo, host, folder, asked.retry)
    state = Bisected(asked, span, f"{mode} at {level}", builds.costs, datetime.now(UTC))
    search = _Search(state, parameters.model_copy(update={"levels": (level,)}), mode, builds, folder)
    search.earlier = earlier
    try:
        if search.ends():
            while search.next_suspect():
                write(state, repo, folder)
    finally:  # whatever ended it, what was found is kept
        state.finished = datetime.now(UTC)
        write(state, repo, folder)
    return state


class _Search:
    """One search as it goes on: what is measured against what, and what that says of whom."""

    def __init__(
        self, state: Bisected, parameters: ValidationParameters, mode: Mode, builds: CommitBuilds, folder: RunFolder
    ) -> None:
        self.state, self.parameters, self.mode, self.builds, self.folder = state, parameters, mode, builds, folder
        span = state.span
        self.engines = {node.commit: node.engine for node in span.history} | {span.good: span.good_engine}
        self.alpha = NIGHT_ALPHA / (steps_needed(span.history) + (span.fork is not None))
        self.margin = state.asked.margin
        self.found: dict[str, Found] = {}  # by engine, in the order of finding
        self.earlier: dict[str, Step] = {}  # of the same search, interrupted
        self.contents: dict[str, Found] = {}  # by what was built: sources may differ where binaries do not
        self.good = self._end(span.good, state.asked.good)
        refuse_unfit_for(self.good.build.folder, parameters)

    def ends(self) -> bool:
        """Measure the bad end, and where the branches left each other; whether there is something to search."""
        span = self.state.span
        self.found[span.good_engine] = "good"
        self.contents[self.good.build.content] = "good"
        self._end(span.bad, self.state.asked.bad)
        bad = self._judge(span.bad)
        if bad.found != "bad":
            unsure = bad.found == "skip"
            self.state.ended = (
                f"{self.state.target}: {'it cannot be said whether BAD has lost' if unsure else 'BAD has not lost'}"
            )
            self.state.ended += f" more than {self.margin:.0%} against GOOD: {bad.why}"
            return False
        self.margin = _halfway(bad)
        if span.fork is not None and self._judge(span.fork).found == "bad":
            self.state.ended = (
                f"the loss is there already in {span.fork[:10]}, where the branches of GOOD and BAD left each other: "
                "it is GOOD's branch that gained; search from an ancestor of BAD"
            )
            return False
        return True

    def next_suspect(self) -> bool:
        """Judge one more suspect; whether there was one to judge."""
        where = self.state.where = standing(self.state.span.history, self.found)
        if where.candidate is None:
            return False
        left = len(where.suspects)
        report().note(f"{left} commits are suspected; {where.candidate[:10]} is next, margin {self.margin:.1%}")
        self._judge(where.candidate)
        self.state.where = standing(self.state.span.history, self.found)
        return True

    def _judge(self, commit: str) -> Step:
        step = self._step(commit)
        self.state.steps.append(step)
        engine = self.engines.get(commit)
        if engine is not None:
            self.found[engine] = step.found
        report().note(f"{commit[:10]} is {WORDS[step.found]}: {step.why}")
        return step

    def _step(self, commit: str) -> Step:
        engine = self.builds.of(commit)
        if isinstance(engine, Unmeasurable):
            return Step(commit, "skip", engine.why)
        known = self.contents.get(engine.build.content)
        if known is not None:
            return Step(commit, known, f"its engine is that of a commit found {known}, bit for bit")
        step = self.earlier.get(commit) or self._measured(engine)
        self.contents[engine.build.content] = step.found
        self.builds.let_go(engine)
        return step

    def _measured(self, engine: Engine) -> Step:
        """Compare, and keep the comparison as a run of its own."""
        number = len(self.state.steps) + 1
        folder = RunFolder(self.folder.results, f"{self.folder.run_id}.{number:02d}")
        folder.create()
        head = Side(engine.commit[:10], engine.build, engine.source)
        began = datetime.now(UTC)
        comparison = Comparison(
            self.good, head, self.parameters, (self.mode,), self.margin, only=self.state.target, alpha=self.alpha
        )
        compared = compare(comparison, folder)
        for reason in keep(comparison, compared, folder, overall(compared.verdicts).exit_code, began):
            report().note(f"set aside: {reason}")
        return _as_step(engine.commit, compared, folder, self.alpha)

    def _end(self, commit: str, name: str) -> Side:
        """GOOD or BAD, which must build. Raises BuildError."""
        engine = self.builds.of(commit)
        if isinstance(engine, Unmeasurable):
            raise BuildError(f"{name} ({commit[:10]}): {engine.why}; name another commit near it")
        return Side(name, engine.build, engine.source)


def _earlier_steps(folder: RunFolder, asked: Asked, span: Span) -> dict[str, Step]:
    """What an interrupted search of this name had measured, by commit. Raises SourceError where it searched something else."""
    path = folder.root / "bisect.json"
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    there = (content["good"], content["bad"], content["asked"]["target"], content["asked"]["margin"])
    if there != (span.good, span.bad, asked.target, asked.margin):
        raise SourceError(
            f"run {folder.run_id} searched {there[0][:10]}..{there[1][:10]} for {there[2]}; leave out --run for a new one"
        )
    steps = [Step(**step) for step in content["steps"]]
    return {step.commit: step for step in steps if step.run}


def _as_step(commit: str, compared: Compared, folder: RunFolder, alpha: float) -> Step:
    (verdict,) = compared.verdicts
    found: Found = _FOUND.get(verdict.status, "skip")
    return Step(
        commit,
        found,
        " ".join([verdict.reason, *compared.notes]) if found == "skip" else verdict.reason,
        verdict.ratio,
        verdict.low,
        verdict.high,
        verdict.pairs,
        measurements=len(folder.record_files()),
        wall_s=compared.wall_s,
        error=alpha / 2 if found != "skip" else 0.0,  # the interval is two-sided, and wrong on the other side alone
        run=folder.run_id,
    )


def _halfway(bad: Step) -> float:
    """The loss halfway, in logarithms, between none and that of the bad end: what tells suspects apart with fewest pairs."""
    ratio = bad.ratio or 1.0
    return min(abs(1 - sqrt(ratio)), MOST_MARGIN)
