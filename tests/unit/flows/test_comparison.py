"""Commits built head to head, and what a comparison says of records with known differences."""

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from flows.build import Build, build_commit
from flows.compare import Compared, Comparison, Side, _sample, arm_of, conclude, open_side
from flows.comparison_report import markdown
from flows.parameters import ValidationParameters
from flows.revisions import merge_base, resolve, sources_of
from flows.settings import HostSettings
from flows.source import SourceError, tree_digest
from flows.verdicts.judge import PairSample
from flows.verdicts.looks import LookPlan, judge_night
from storage.records import Source


def load_helper(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = load_helper(Path(__file__).parents[1] / "storage_records/record_factory.py")
small = load_helper(Path(__file__).with_name("test_build.py"))


def git(repo: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", "-C", repo, *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A main line of two commits; a branch with a change of Python, then one of a text; then uncommitted work."""
    folder: Path = small.make_repo(tmp_path_factory.mktemp("fresh clone.") / "the repo")
    git(folder, "init", "-q", "-b", "main")
    for name, path, text in (
        ("first", "native/notes.txt", "one"),
        ("branch", "engine/__init__.py", "API_VERSION = 1\nSPEED = 2\n"),
        ("docs", "README.md", "words"),
    ):
        (folder / path).write_text(text)
        if name == "branch":
            git(folder, "checkout", "-qb", "work")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", name)
    return folder


def test_names_are_resolved_and_the_base_is_where_the_branch_began(repo: Path) -> None:
    assert resolve(repo, "work") == git(repo, "rev-parse", "HEAD")
    assert merge_base(repo) == resolve(repo, "main") == resolve(repo, "work~2")
    with pytest.raises(SourceError, match=r"'nowhere': no commit, branch or tag of .*the repo"):
        resolve(repo, "nowhere")
    with pytest.raises(SourceError, match="'--help': no commit"):
        resolve(repo, "--help")


def test_a_commits_sources_are_those_of_its_tree(repo: Path) -> None:
    with sources_of(repo, resolve(repo, "work")) as folder:
        assert tree_digest(folder) == tree_digest(repo)
        kept = folder
    assert not kept.exists()


def test_commits_are_built_apart_and_equal_engines_share_a_build(repo: Path, tmp_path: Path) -> None:
    host = HostSettings(cache=tmp_path / "the cache", repo=repo)
    log = tmp_path / "log"
    base, source = build_commit(repo, resolve(repo, "main"), host, log)
    assert source == Source(commit=resolve(repo, "main"), dirty=False, tree=str(base.info["tree"]))
    changed, _ = build_commit(repo, resolve(repo, "work~1"), host, log)
    assert changed.folder != base.folder
    assert (changed.folder / "engine/__init__.py").read_text() == "API_VERSION = 1\nSPEED = 2\n"
    assert changed.content != base.content, "the engine's Python counts, though the module may be the same"
    docs = open_side("work", None, host, log)
    assert docs.build.folder == changed.folder
    assert docs.source.commit == resolve(repo, "work")
    assert open_side(None, None, host, log).build.folder == base.folder, "left out: the merge base"
    assert open_side("worktree", None, host, log).build.folder == changed.folder


def comparison(tmp_path: Path, *, same: bool = False) -> Comparison:
    sides = []
    for name in ("base", "head"):
        folder = tmp_path / name
        (folder / "engine").mkdir(parents=True)
        info = {"commit": name[0] * 40, "dirty": False, "tree": name, "module_sha256": "m" if same else name}
        sides.append(Side(name, Build(folder, info), Source(commit=name[0] * 40, dirty=False, tree=name)))
    return Comparison(sides[0], sides[1], ValidationParameters(levels=(4,), pairs=5), ("batch",), 0.03)


def pairs(made: Comparison, head_takes: float, **spec: object) -> dict[str, list[PairSample]]:
    """Five pairs of each target whose head takes so many times the base's time."""
    found: dict[str, list[PairSample]] = {}
    for target in made.targets:
        for number in range(1, 6):
            records = {}
            for arm, factor in (("base", 1.0), ("head", head_takes)):
                asked = arm_of(made, target, number, arm, 0).spec  # type: ignore[arg-type]
                changed = asked.model_copy(update=spec if arm == "head" else {})
                records[arm] = make.make_record(spec=changed, wall_s=factor * (1 + 0.001 * number * (arm == "head")))
            found.setdefault(target.name, []).append(_sample(target, number, records))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(("head_takes", "status"), [(1.0, "PASS"), (1.1, "FAIL"), (0.8, "PASS")])
def test_a_loss_beyond_the_margin_fails_in_seconds_and_in_requests_alike(tmp_path: Path, head_takes: float, status: str) -> None:
    made = comparison(tmp_path)
    verdicts = judge_night(made.targets, pairs(made, head_takes), LookPlan.fixed(5))
    assert [verdict.target.name for verdict in verdicts] == ["batch at 1", "batch at 4"]
    assert [verdict.status for verdict in verdicts] == [status, status]
    assert conclude(made, verdicts).exit_code == (1 if status == "FAIL" else 0)


def test_fewer_tokens_from_the_head_are_an_error_that_names_it(tmp_path: Path) -> None:
    made = comparison(tmp_path)
    verdicts = judge_night(made.targets, pairs(made, 1.0, new_tokens=31), LookPlan.fixed(5))
    assert {verdict.status for verdict in verdicts} == {"ERROR"}
    assert "token totals differ: base 160, head 155" in verdicts[0].reason


def test_one_binary_has_nothing_to_answer_for(tmp_path: Path) -> None:
    made = comparison(tmp_path, same=True)
    verdicts = judge_night(made.targets, pairs(made, 1.1), LookPlan.fixed(5))
    assert conclude(made, verdicts).exit_code == 0
    assert conclude(made, verdicts).headline.startswith("SAME: both builds are one binary")


def test_the_comment_has_figures_units_intervals_and_the_verdict(tmp_path: Path) -> None:
    made = comparison(tmp_path)
    samples = pairs(made, 1.1)
    verdicts = judge_night(made.targets, samples, LookPlan.fixed(5))
    text = markdown(made, Compared(verdicts, samples, ["A note."], 60.0), conclude(made, verdicts))
    assert text.startswith(f"### FAIL: head ({'h' * 10}) against base ({'b' * 10})\n")
    assert "| batch at 4 | throughput | 4 req/s | 3.625 req/s | 0.906 |" in text
    assert "- A note." in text
    assert "a loss beyond 3% is a FAIL, shared by 2 targets. 60 s" in text
