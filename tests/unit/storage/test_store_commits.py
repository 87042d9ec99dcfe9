"""Commits from real repositories: merges, equal timestamps, cherry-picks, rewritten history, a detached head, a dirty tree
(case 32).
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from storage import queries
from storage.commits import fill_commits
from storage.errors import StoreError
from storage.ingest import ingest

DATE = "2026-01-01T00:00:00+01:00"  # of every commit: dates order nothing


class Repository:
    """A git repository whose commits all carry one date."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=A Person", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        clean = [
            "env",
            "-u",
            "GIT_DIR",
            "-u",
            "GIT_INDEX_FILE",
            "-u",
            "GIT_WORK_TREE",
            f"GIT_COMMITTER_DATE={DATE}",
            f"GIT_AUTHOR_DATE={DATE}",
        ]
        command = [*clean, "git", "-C", str(self.folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, subject: str) -> str:
        """A new commit that adds a file of its own."""
        (self.folder / subject.replace(" ", "-")).write_text(subject)
        self.git("add", ".")
        self.git("commit", "-q", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "a repository")


def measure(kit: Any, results: Any, *commits: str, dirty: bool = False) -> None:
    """One pair on each commit, in a run of its own."""
    records = []
    for commit in commits:
        source = kit.make.make_source(commit=commit, dirty=dirty)
        records += kit.make.make_pair(2, 1.8, run_id=f"run-{commit[:12]}{'-dirty' if dirty else ''}", source=source)
    assert ingest(results.store, results.write(records)).rejected == []


def placed(results: Any) -> list[str]:
    """Commits of the history in its order, those without a place left out."""
    frame = queries.ratio_history(results.root)
    return list(frame[frame["placement"] == "placed"]["commit"])


def test_order_is_topological_with_equal_timestamps_and_merges(kit: Any, results: Any, repository: Repository) -> None:
    first = repository.commit("first")
    second = repository.commit("second")
    repository.git("checkout", "-q", "-b", "side", first)
    side = repository.commit("side work")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    merge = repository.git("rev-parse", "HEAD")
    last = repository.commit("last")
    measure(kit, results, last, side, merge, first, second)
    report = fill_commits(results.store, repository.folder)
    assert (report.placed, report.unreachable, report.unknown, report.shallow) == (5, [], [], False)
    order = placed(results)
    assert order[0] == first
    assert set(order[1:3]) == {second, side}
    assert order[3:] == [merge, last]
    row = results.query(
        f"SELECT author, subject, parents, reachable, author_date::VARCHAR FROM commits WHERE \"commit\" = '{merge}'"
    )
    assert row == [("A Person", "merge side", [second, side], True, "2025-12-31 23:00:00")]
    branches = dict(results.query(f"SELECT branch, position FROM branch_positions WHERE \"commit\" = '{side}'"))
    assert branches["side"] == 2
    assert branches["main"] in (2, 3)


def test_a_cherry_pick_is_a_commit_of_its_own(kit: Any, results: Any, repository: Repository) -> None:
    first = repository.commit("first")
    repository.git("checkout", "-q", "-b", "side")
    picked = repository.commit("a fix")
    repository.git("checkout", "-q", "main")
    between = repository.commit("between")
    repository.git("cherry-pick", picked)
    copy = repository.git("rev-parse", "HEAD")
    measure(kit, results, first, picked, between, copy)
    fill_commits(results.store, repository.folder)
    order = placed(results)
    assert len(order) == 4
    assert order.index(first) < order.index(between) < order.index(copy)


def test_rewritten_history_keeps_its_points_and_marks_them(kit: Any, results: Any, repository: Repository) -> None:
    first = repository.commit("first")
    second = repository.commit("second")
    measure(kit, results, first, second)
    assert fill_commits(results.store, repository.folder).placed == 2
    repository.git("commit", "-q", "--amend", "-m", "second, reworded")
    amended = repository.git("rev-parse", "HEAD")
    measure(kit, results, amended)
    report = fill_commits(results.store, repository.folder)
    assert report.unreachable == [second]
    history = queries.ratio_history(results.root).set_index("commit")
    assert history.loc[second, "placement"] == "unreachable: history was rewritten"
    assert history.loc[second, "commit_position"] is None or history.loc[[second]].isna()["commit_position"].all()
    assert history.loc[second, "ratio"] > 1
    assert placed(results) == [first, amended]
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    assert fill_commits(results.store, repository.folder).unreachable == [second]
    assert results.query(f"SELECT subject FROM commits WHERE \"commit\" = '{second}'") == [("second",)]


def test_a_detached_head_is_reachable(kit: Any, results: Any, repository: Repository) -> None:
    first = repository.commit("first")
    repository.git("checkout", "-q", "--detach")
    detached = repository.commit("on no branch")
    measure(kit, results, first, detached)
    assert fill_commits(results.store, repository.folder).placed == 2
    assert placed(results) == [first, detached]
    assert results.query("SELECT DISTINCT branch FROM branch_positions") == [("main",)]


def test_what_has_no_place_says_so(kit: Any, results: Any, repository: Repository) -> None:
    first = repository.commit("first")
    measure(kit, results, first, "unknown", "d" * 40)
    measure(kit, results, first, dirty=True)
    report = fill_commits(results.store, repository.folder)
    assert report.unknown == ["d" * 40]
    found = {(c, p) for c, p in queries.ratio_history(results.root)[["commit", "placement"]].itertuples(index=False)}
    assert found == {
        (first, "placed"),
        (first, "uncommitted changes"),
        ("unknown", "unknown commit"),
        ("d" * 40, "not described by git yet"),
    }


def test_a_shallow_clone_describes_and_moves_nothing(kit: Any, results: Any, repository: Repository, tmp_path: Path) -> None:
    first, second = repository.commit("first"), repository.commit("second")
    measure(kit, results, first)
    fill_commits(results.store, repository.folder)
    measure(kit, results, second)
    shallow = tmp_path / "shallow"
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.folder}", str(shallow))
    report = fill_commits(results.store, shallow)
    assert report.shallow
    rows = results.query('SELECT "commit", position, reachable, subject FROM commits')
    assert sorted(rows) == sorted([(first, 1, True, "first"), (second, None, True, "second")])
    assert fill_commits(results.store, repository.folder).placed == 2


def test_no_repository_and_an_empty_one(kit: Any, results: Any, repository: Repository, tmp_path: Path) -> None:
    measure(kit, results, "a" * 40)
    with pytest.raises(StoreError, match="git rev-parse failed"):
        fill_commits(results.store, tmp_path)
    assert fill_commits(results.store, repository.folder).unknown == ["a" * 40]


def test_another_repository_moves_nothing(kit: Any, results: Any, repository: Repository, tmp_path: Path) -> None:
    first = repository.commit("first")
    measure(kit, results, first)
    fill_commits(results.store, repository.folder)
    other = Repository(tmp_path / "another repository")
    other.commit("elsewhere")
    assert fill_commits(results.store, other.folder).unknown == [first]
    assert placed(results) == [first]
