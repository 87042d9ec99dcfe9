"""The source tree under test: where it is, which commit it is, and the digest of what gets built."""

import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from flows.settings import outside_git_hooks
from storage.records import Source

UNDER_TEST = ("engine", "native")
_GIT_TIMEOUT_S = 30.0


class SourceError(RuntimeError):
    """No source tree where one is needed."""


def find_repo(given: Path | None) -> Path:
    """The tree that holds native/ and engine/: the one given, or the current folder. Raises SourceError."""
    repo = (given or Path.cwd()).resolve()
    for needed in ("native/CMakeLists.txt", "engine/__init__.py"):
        if not (repo / needed).is_file():
            raise SourceError(
                f"{repo}: no engine sources here ({needed} is missing): run this in a paceline source tree, "
                "name one with --repo FOLDER, or name an existing build with --build FOLDER"
            )
    return repo


def describe_source(repo: Path) -> Source:
    """Commit, dirty flag and digest of engine/ and native/. Outside git the commit is "unknown"."""
    commit = _git(repo, "rev-parse", "HEAD")
    changes = _git(repo, "status", "--porcelain", "--", *UNDER_TEST)
    return Source(commit=commit or "unknown", dirty=bool(changes), tree=tree_digest(repo))


def tree_digest(repo: Path) -> str:
    """sha256 over the paths and contents of engine/ and native/."""
    return _digest(repo, source_files(repo))


def _digest(repo: Path, files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(repo).as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def native_digest(repo: Path) -> str:
    """sha256 over the paths and contents of native/ alone, from which the compiled module follows."""
    return _digest(repo, source_files(repo, ("native",)))


def source_files(repo: Path, tops: Iterable[str] = UNDER_TEST) -> Iterator[Path]:
    """Files of engine/ and native/ in a fixed order, without what was built or cached there."""
    for top in tops:
        for path in sorted((repo / top).rglob("*")):
            inside = path.relative_to(repo).parts
            if path.is_file() and path.suffix not in (".so", ".pyc") and not any(_is_by_product(part) for part in inside):
                yield path


def _is_by_product(part: str) -> bool:
    return part.startswith(".") or part in ("__pycache__", "build")


def _git(repo: Path, *arguments: str) -> str | None:
    """Output of a git command; None where git or the repository is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repo), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
            env=outside_git_hooks(),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
