"""Ranges of commits as git orders them: parents first, dates ignored, each commit with the engine that it would build."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from flows.revisions import is_shallow, merge_base_of, require_reached, resolve
from flows.settings import outside_git_hooks
from flows.source import UNDER_TEST, SourceError
from flows.verdicts.search import Node


@dataclass(frozen=True)
class Span:
    """What lies between a good and a bad commit."""

    good: str
    bad: str
    history: tuple[Node, ...]  # without good; the last one is bad
    good_engine: str
    fork: str | None = None  # where good is no ancestor of bad: the newest commit that both come from


def between(repo: Path, good: str, bad: str) -> Span:
    """The history that leads to `bad` and not to `good`, both by any name. Raises SourceError."""
    first, last = resolve(repo, good), resolve(repo, bad)
    for commit in (first, last):
        require_reached(repo, commit)
    nodes = _nodes(repo, [f"^{first}", last])
    if not nodes:
        raise SourceError(f"{good}..{bad}: no commit between them: {bad} is {good} or older; name the older one first")
    shared = merge_base_of(repo, first, last)
    if shared is None:
        hint = "; this clone is shallow: `git fetch --unshallow`" if is_shallow(repo) else ""
        raise SourceError(f"{good}..{bad}: the two have no history in common, so neither can have become the other{hint}")
    return Span(first, last, nodes, _engines(repo, [first])[first], None if shared == first else shared)


def commits_in(repo: Path, text: str) -> tuple[Node, ...]:
    """The commits of a range, oldest first: `A..B` those that B has and A has not, `B` all that B has. Raises SourceError."""
    start, _, end = text.rpartition("..")
    tips = [resolve(repo, end)]
    require_reached(repo, tips[0])
    if start:
        tips.insert(0, f"^{resolve(repo, start)}")
    nodes = _nodes(repo, tips)
    if not nodes:
        raise SourceError(f"range {text!r}: holds no commit; the older end stands first")
    return nodes


def ancestors_of(repo: Path, commit: str) -> list[str]:
    """The commit and all that it comes from, the nearest first. Raises SourceError."""
    return _git(repo, ["rev-list", "--topo-order", "--stdin"], f"{commit}\n").split()


def _nodes(repo: Path, tips: list[str]) -> tuple[Node, ...]:
    listed = _git(repo, ["rev-list", "--topo-order", "--reverse", "--parents", "--stdin"], "\n".join(tips) + "\n")
    lines = [line.split() for line in listed.splitlines()]
    if not lines:
        return ()
    engines = _engines(repo, [line[0] for line in lines])
    return tuple(Node(line[0], tuple(line[1:]), engines[line[0]]) for line in lines)


def _engines(repo: Path, commits: list[str]) -> dict[str, str]:
    """By commit, git's own names of its engine/ and native/; a commit that lacks one has an engine of its own."""
    wanted = [f"{commit}:{top}" for commit in commits for top in UNDER_TEST]
    told = _git(repo, ["cat-file", "--batch-check=%(objectname)"], "\n".join(wanted) + "\n").splitlines()
    pairs = zip(told[::2], told[1::2], strict=True)
    return {
        commit: commit if any(name.endswith(" missing") for name in pair) else "+".join(pair)
        for commit, pair in zip(commits, pairs, strict=True)
    }


def _git(repo: Path, arguments: list[str], given: str) -> str:
    command = ["git", "-C", str(repo), *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, env=outside_git_hooks())
    except OSError as error:
        raise SourceError(f"{repo}: git cannot be run: {error}") from error
    if done.returncode != 0:
        raise SourceError(f"{repo}: git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout
