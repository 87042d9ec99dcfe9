"""Commits by the names that people give them, and their engines' sources laid out to be built."""

import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.settings import outside_git_hooks
from flows.source import UNDER_TEST, SourceError

WORKTREE = "worktree"  # the tree as it stands, uncommitted changes included
_MAIN_LINES = ("@{upstream}", "origin/HEAD", "origin/main", "origin/master", "main", "master")


def resolve(repo: Path, name: str) -> str:
    """The commit, 40 hex digits, that a commit, branch or tag is. Raises SourceError."""
    found = _git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if not found:
        hint = "; this clone is shallow: `git fetch --unshallow`" if is_shallow(repo) else ""
        raise SourceError(f"{name!r}: no commit, branch or tag of {repo}; `git fetch` it, or name an existing one{hint}")
    return found.decode().strip()


def is_shallow(repo: Path) -> bool:
    """Whether the clone has only the newest part of its history."""
    return (_git(repo, "rev-parse", "--is-shallow-repository") or b"").strip() == b"true"


def require_reached(repo: Path, commit: str) -> None:
    """Refuse a commit that no branch, tag or head leads to: a rewritten one, or one that somebody merely pushed as an object.

    Raises SourceError.
    """
    if _git(repo, "merge-base", "--is-ancestor", commit, "HEAD") is not None:
        return
    refs = ("refs/heads", "refs/tags", "refs/remotes")
    if not _git(repo, "for-each-ref", "--count=1", f"--contains={commit}", *refs):
        raise SourceError(
            f"commit {commit[:10]}: no branch, tag or head of {repo} reaches it (rewritten history?); "
            f"to build it all the same, give it a branch: git branch keep {commit[:10]}"
        )


def merge_base(repo: Path) -> str:
    """Where the current branch left the main line: its upstream, else the remote's or the local main. Raises SourceError."""
    for line in _MAIN_LINES:
        found = _git(repo, "merge-base", "HEAD", line)
        if found:
            return found.decode().strip()
    raise SourceError(f"{repo}: no main line to compare with (looked for {', '.join(_MAIN_LINES)}); name the base")


def merge_base_of(repo: Path, first: str, second: str) -> str | None:
    """The newest commit that both come from; None where there is none."""
    found = _git(repo, "merge-base", first, second)
    return found.decode().strip() if found else None


def subject_of(repo: Path, commit: str) -> str:
    """First line of the commit's message."""
    return (_git(repo, "show", "--no-patch", "--format=%s", commit) or b"").decode("utf-8", errors="replace").strip()


@contextmanager
def tree_of(repo: Path, commit: str) -> Iterator[Path]:
    """Everything of a commit in a folder of its own, for as long as the body runs. Raises SourceError."""
    with _unpacked(repo, commit) as folder:
        yield folder


@contextmanager
def sources_of(repo: Path, commit: str) -> Iterator[Path]:
    """engine/ and native/ of a commit in a folder of their own, for as long as the body runs. Raises SourceError."""
    with _unpacked(repo, commit, *UNDER_TEST) as folder:
        yield folder


@contextmanager
def _unpacked(repo: Path, commit: str, *paths: str) -> Iterator[Path]:
    archive = _git(repo, "archive", "--format=tar", commit, "--", *paths)
    if archive is None:
        raise SourceError(f"commit {commit[:10]}: has no engine/ and native/ to build, or {repo} has only part of its history")
    folder = Path(tempfile.mkdtemp(prefix="paceline-sources-"))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as file:
            file.extractall(folder, filter="data")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _git(repo: Path, *arguments: str) -> bytes | None:
    """Output of a git command; None where it fails or git is missing."""
    try:
        done = subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, check=True, env=outside_git_hooks())
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
