"""History as it is, from real repositories: merges, equal dates, cherry-picks, rewritten branches, shallow clones, losses."""

import os
import subprocess
from pathlib import Path

import pytest

from flows.commit_choice import choose, coarse_first, measured_plans
from flows.commit_range import between, commits_in
from flows.revisions import require_reached, resolve
from flows.source import SourceError
from flows.verdicts.search import Node

DATE = "2026-01-01T00:00:00+00:00"  # of every commit


def git(repo: Path, *arguments: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    identity = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "protocol.file.allow=always",
    ]
    command = ["git", "-C", str(repo), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout.strip()


def commit(repo: Path, subject: str, engine: str | None = None) -> str:
    """A commit; with another engine where one is given."""
    (repo / subject.replace(" ", "-")).write_text(subject)
    if engine is not None:
        for top in ("engine", "native"):
            (repo / top).mkdir(exist_ok=True)
        (repo / "engine/x.py").write_text(engine)
        (repo / "native/x.cc").write_text("")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", subject, "--allow-empty")
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "a repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def test_parents_come_first_though_all_dates_are_equal_and_merges_bring_their_branch(repo: Path) -> None:
    good = commit(repo, "good", "a")
    git(repo, "checkout", "-qb", "side")
    side = commit(repo, "side", "b")
    git(repo, "checkout", "-q", "main")
    straight = commit(repo, "straight", "c")
    git(repo, "merge", "-q", "-s", "ours", "-m", "merge", "side")
    span = between(repo, "main~1~1", "main")
    assert (span.good, span.bad, span.fork) == (good, git(repo, "rev-parse", "main"), None)
    assert {node.commit for node in span.history[:2]} == {side, straight}
    assert set(span.history[-1].parents) == {side, straight}


def test_equal_engines_have_one_name_and_a_cherry_pick_brings_its_engine(repo: Path) -> None:
    commit(repo, "first", "a")
    text = commit(repo, "text")
    git(repo, "checkout", "-qb", "side")
    picked = commit(repo, "picked", "b")
    git(repo, "checkout", "-q", "main")
    commit(repo, "more")
    git(repo, "cherry-pick", picked)
    again = git(repo, "rev-parse", "HEAD")
    engines = {node.commit: node.engine for node in commits_in(repo, "main")}
    assert engines[text] == engines[git(repo, "rev-parse", "main~3")]
    assert engines[again] == commits_in(repo, "side")[-1].engine != engines[text]


def test_commits_without_an_engine_have_names_of_their_own(repo: Path) -> None:
    nodes = [commit(repo, name) for name in ("one", "two")]
    assert [node.engine for node in commits_in(repo, "HEAD")] == nodes


def test_a_rewritten_commit_is_refused_and_a_branch_brings_it_back(repo: Path) -> None:
    first = commit(repo, "first", "a")
    lost = commit(repo, "lost", "b")
    git(repo, "reset", "-q", "--hard", first)
    commit(repo, "instead", "c")
    with pytest.raises(SourceError, match=rf"{lost[:10]}: no branch, tag or head .* reaches it.*git branch keep"):
        require_reached(repo, lost)
    with pytest.raises(SourceError, match="rewritten history"):
        commits_in(repo, f"{first}..{lost}")
    git(repo, "branch", "keep", lost)
    require_reached(repo, lost)
    span = between(repo, "keep", "main")
    assert span.fork == first, "the branches left each other there"


def test_a_vanished_commit_and_a_shallow_clone_say_what_to_do(repo: Path, tmp_path: Path) -> None:
    first = commit(repo, "first", "a")
    commit(repo, "second", "b")
    with pytest.raises(SourceError, match=r"'f{40}': no commit, branch or tag"):
        between(repo, "f" * 40, "main")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    with pytest.raises(SourceError, match="this clone is shallow: `git fetch --unshallow`"):
        between(tmp_path / "shallow", first, "main")
    assert len(commits_in(tmp_path / "shallow", "HEAD")) == 1


def test_a_detached_head_and_tags_are_reached(repo: Path) -> None:
    first = commit(repo, "first", "a")
    git(repo, "checkout", "-q", "--detach")
    loose = commit(repo, "loose", "b")
    require_reached(repo, loose)
    assert [node.commit for node in commits_in(repo, "main..HEAD")] == [loose]
    git(repo, "tag", "kept")
    git(repo, "checkout", "-q", "main")
    require_reached(repo, loose)
    assert resolve(repo, "kept") == loose != first


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (("main", "main"), "no commit between them"),
        (("main", "main~1"), "name the older one first"),
        (("other", "main"), "no history in common"),
    ],
)
def test_ends_without_a_history_between_them(repo: Path, ends: tuple[str, str], words: str) -> None:
    commit(repo, "first", "a")
    commit(repo, "second", "b")
    git(repo, "checkout", "-q", "--orphan", "other")
    commit(repo, "elsewhere", "c")
    with pytest.raises(SourceError, match=words):
        between(repo, *ends)


@pytest.mark.parametrize(("text", "words"), [("main..main", "holds no commit"), ("nowhere", "'nowhere': no commit")])
def test_ranges_that_hold_nothing(repo: Path, text: str, words: str) -> None:
    commit(repo, "first", "a")
    with pytest.raises(SourceError, match=words):
        commits_in(repo, text)


def test_every_nth_and_the_last_of_what_changes_the_engine() -> None:
    nodes = [Node(f"c{i}", (), engine) for i, engine in enumerate("aabbcdefg")]
    assert [node.commit for node in choose(nodes, 1, everything=False)] == ["c0", "c2", "c4", "c5", "c6", "c7", "c8"]
    assert [node.commit for node in choose(nodes, 4, everything=False)] == ["c0", "c6", "c8"]
    assert len(choose(nodes, 1, everything=True)) == 9


def test_the_ends_come_first_and_any_beginning_is_even() -> None:
    nodes = [Node(str(i), (), str(i)) for i in range(9)]
    order = [int(node.commit) for node in coarse_first(nodes)]
    assert order[:5] == [8, 0, 4, 2, 6]
    assert sorted(order) == list(range(9))
    assert coarse_first(nodes[:1]) == nodes[:1]


def test_a_plan_that_came_to_verdicts_is_measured_and_one_that_broke_is_not(tmp_path: Path) -> None:
    for run, plan, code in (("1", "a", 0), ("2", "a", 3), ("3", "b", 2), ("4", "c", 1)):
        (tmp_path / run).mkdir()
        (tmp_path / run / "summary.json").write_text(f'{{"plan": "{plan}", "exit_code": {code}}}')
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/summary.json").write_text("{")
    assert measured_plans(tmp_path) == {"a": "2", "c": "4"}
