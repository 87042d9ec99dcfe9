"""Nights in a real store on the commits of a real repository: baselines, legs, decisions, the canary, changes told once."""

import importlib.util
import subprocess
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from flows.aggregate import judge_again, judge_run, open_levels, store_judged, tell_changes
from flows.cli import app
from flows.folders import RunFolder
from flows.parameters import ValidationParameters
from flows.plan import make_plan, write_plan
from flows.verdicts.judge import Verdict
from flows.verdicts.targets import keep_targets
from storage.commits import fill_commits
from storage.decisions import add_acceptance, add_waiver
from storage.ingest import ingest
from storage.queries import change_points, query
from storage.rebuild import rebuild
from storage.records import dump

FIRST = datetime(2026, 3, 1, 2, tzinfo=UTC)
TARGETS = """
[[target]]
name = "floor"
metric = "speedup_vs_serial"
level = 8
direction = ">="
bound = 4.5
unit = "x"

[[target]]
name = "no worse"
metric = "speedup_vs_serial"
level = 8
direction = ">="
bound = "baseline - 3 %"
unit = "x"
"""


def load_factory() -> ModuleType:
    path = Path(__file__).parents[1] / "storage_records/record_factory.py"
    spec = importlib.util.spec_from_file_location("record_factory", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = load_factory()


class Series:
    """A repository of 14 commits, and nights on them."""

    def __init__(self, root: Path) -> None:
        self.results, self.repo, self.targets = root / "the results", root / "repo", root / "targets.toml"
        self.results.mkdir()
        self.targets.write_text(TARGETS)
        self.git("init", "-q", str(self.repo))
        for number in range(14):
            self.git("-C", str(self.repo), "commit", "-q", "--allow-empty", "-m", f"commit {number}")
        self.commits = self.git("-C", str(self.repo), "rev-list", "--reverse", "HEAD").split()
        self.nights = 0

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout

    def parameters(self, **changes: object) -> ValidationParameters:
        return ValidationParameters.model_validate({"levels": (8,), "pairs": 5, **changes})

    def measure(self, commit: int, *, serial: float = 1.0, batch: float = 1.0, canary: float = 0.0, tree: int = -1) -> str:
        """A night on a commit whose legs take so many times what they should; returns the run's name."""
        self.nights += 1
        run_id = f"night{self.nights:02d}"
        began = FIRST + timedelta(days=self.nights)
        scatter = np.random.default_rng(self.nights)
        walls = {(8, "serial"): 8 * 0.672, (8, "batch"): 8 * 0.672 / 5.5}
        slow = {"serial": serial, "batch": batch}
        legs = [(pair, level, mode, {}) for pair in range(1, 6) for level, mode in walls]
        arms = {"a": 1.0, "b": canary or 1.0}
        legs += [(pair, 8, "batch", {"arm": arm}) for pair in range(1, 6) for arm in arms] if canary else []
        records = []
        for order, (pair, level, mode, extra) in enumerate(legs):
            kind = "canary" if extra else "throughput"
            spec = make.make_spec(kind=kind, level=level, mode=mode, pair=pair, order=order, extra=extra)
            wall = walls[level, mode] * slow[mode] * arms.get(extra.get("arm", ""), 1.0) * scatter.normal(1.0, 0.004)
            source = make.make_source(commit=self.commits[commit], tree=f"tree{commit if tree < 0 else tree}")
            name = make.measurement_name(spec) + extra.get("arm", "")
            at = {"started_at": began, "finished_at": began, "record_id": uuid.uuid4().hex}
            records.append(make.make_record(wall_s=wall, spec=spec, run_id=run_id, source=source, measurement=name, **at))
        folder = RunFolder(self.results, run_id)
        folder.create()
        for record in records:
            dump(record, folder.records / f"{record.measurement.replace('/', '.')}.attempt1.json")
        write_plan(make_plan(self.parameters(), f"tree{commit}"), folder.plan)
        assert ingest(folder.store, folder.record_files()).rejected == []
        fill_commits(folder.store, self.repo)
        return run_id

    def judge(self, run_id: str) -> dict[str, Verdict]:
        verdicts = judge_run(self.results, run_id, self.parameters(), self.targets)
        store_judged(RunFolder(self.results, run_id), verdicts, "report")
        return {verdict.target.name: verdict for verdict in verdicts}

    def night(self, commit: int, **changes: float) -> dict[str, Verdict]:
        return self.judge(self.measure(commit, **changes))

    def at(self, night: float) -> datetime:
        """An instant after so many nights."""
        return FIRST + timedelta(days=night)


@pytest.fixture
def series(tmp_path: Path) -> Series:
    return Series(tmp_path)


def test_the_first_night_has_no_baseline_and_buys_nothing_for_it(series: Series) -> None:
    run = series.measure(0)
    found = series.judge(run)
    assert (found["floor"].status, found["no worse"].status) == ("PASS", "INCONCLUSIVE")
    assert "no accepted baseline" in found["no worse"].reason
    assert open_levels(series.results, run, series.parameters(), series.targets) == set()


def test_a_loss_is_held_against_the_last_commit_that_passed_and_the_leg_is_named(series: Series) -> None:
    series.night(0)
    found = series.night(1, batch=1.1)
    assert (found["floor"].status, found["no worse"].status) == ("PASS", "FAIL")
    verdict = found["no worse"]
    assert verdict.change.startswith(f"Against {series.commits[0][:10]} (passed): ratio -8.")
    assert "serial unmoved" in verdict.change
    assert "the batch leg is slower than in the accepted state" in verdict.flags[0]
    assert any("#a-slower-leg" in hint for hint in verdict.hints)
    stored = query(series.results, "SELECT details ->> 'change' AS change FROM verdicts WHERE name = 'no worse'")["change"]
    assert verdict.change in list(stored)


def test_a_pass_through_a_slower_serial_leg_is_flagged(series: Series) -> None:
    series.night(0)
    found = series.night(1, serial=1.1)
    assert {verdict.status for verdict in found.values()} == {"PASS"}
    assert all("serial leg is slower, which flatters this PASS" in verdict.flags[0] for verdict in found.values())


def test_an_accepted_commit_is_the_baseline_from_then_on(series: Series) -> None:
    series.night(0)
    assert series.night(1, batch=1.1)["no worse"].status == "FAIL"
    assert series.night(2, batch=1.1)["no worse"].status == "FAIL", "the failed commit is no baseline"
    add_acceptance(series.results, series.commits[2], "the price of correctness", series.at(3.5))
    found = series.night(3, batch=1.1)
    assert found["no worse"].status == "PASS"
    assert "(accepted: the price of correctness)" in found["no worse"].change


def test_a_waiver_covers_its_target_until_its_day(series: Series) -> None:
    series.night(0)
    add_waiver(series.results, "no worse", series.at(2).date(), "known", series.at(1.5))
    waived = series.night(1, batch=1.1)["no worse"]
    assert (waived.status, waived.waived) == ("FAIL", f"until {series.at(2).date()}: known")
    ended = series.night(2, batch=1.1)["no worse"]
    assert ended.waived == ""
    assert "its waiver ended on" in ended.flags[-1]


def test_a_canary_that_moved_withholds_the_fail(series: Series) -> None:
    series.night(0)
    found = series.night(1, batch=1.1, canary=1.05)
    assert found["no worse"].status == "INCONCLUSIVE"
    assert found["no worse"].reason.startswith("FAIL withheld")
    assert "batch at 8" in found["no worse"].reason
    assert series.night(2, batch=1.1, canary=1.0001)["no worse"].status == "FAIL"


def test_the_baselines_own_binary_cannot_fail(series: Series) -> None:
    series.night(1)
    found = series.judge(series.measure(2, batch=1.1, tree=1))["no worse"]
    assert found.status == "INCONCLUSIVE"
    assert "Both builds are one binary and cannot differ" in found.reason
    older = series.night(0)["no worse"]
    assert "no accepted baseline" in older.reason, "a later commit is no baseline of an older one"


def test_a_rebuild_judges_every_night_as_it_was_judged(series: Series) -> None:
    series.night(0)
    add_waiver(series.results, "no worse", date(2030, 1, 1), "known", series.at(1.5))
    series.night(1, batch=1.1)
    add_acceptance(series.results, series.commits[1], "so be it", series.at(2.5), target="no worse")
    series.night(2, batch=1.1)
    sql = "SELECT * FROM verdicts ORDER BY run_id, name"
    before = query(series.results, sql)
    report = rebuild(
        series.results, series.results, recompute=lambda store, run: judge_again(store, series.results / run, run, series.targets)
    )
    assert report.rejected == []
    assert query(series.results, sql).equals(before)
    assert list(query(series.results, "SELECT because FROM decisions ORDER BY decided_at")["because"]) == ["known", "so be it"]


def test_a_rebuild_judges_by_the_targets_of_the_night(series: Series) -> None:
    """Whatever the file says by then, and wherever the rebuild is started."""
    run = series.measure(0)
    keep_targets(series.targets, RunFolder(series.results, run).targets)
    series.judge(run)
    series.targets.write_text(series.targets.read_text().replace('name = "floor"', 'name = "another"'))
    sql = "SELECT * FROM verdicts ORDER BY run_id, name"
    before = query(series.results, sql)
    assert "floor" in set(before["name"])
    for given in (series.targets, None):
        judge = partial(lambda given, store, name: judge_again(store, series.results / name, name, given), given)
        rebuild(series.results, series.results, recompute=judge)
        assert query(series.results, sql).equals(before)


def test_a_target_without_data_says_so(series: Series) -> None:
    series.targets.write_text(
        '[[target]]\nname = "energy"\nmetric = "joules_per_token"\nlevel = 8\ndirection = "<="\nbound = 2.0\nunit = "J/token"\n'
        '[[target]]\nname = "tail"\nmetric = "tpot_p99_s"\nlevel = 8\ndirection = "<="\nbound = 0.5\nunit = "s"\n'
    )
    found = series.night(0)
    assert found["energy"].reason == "No verdict: this run recorded no joules_per_token at level 8."
    assert found["energy"].status == "ERROR"
    assert (found["tail"].status, found["tail"].pairs) == ("PASS", 5)


@pytest.mark.slow
def test_a_change_of_the_trend_is_told_once_and_never_by_an_old_commit(series: Series) -> None:
    def told(run: str) -> list[tuple[str, str]]:
        return [(alert["metric"], alert["bad"]) for alert in tell_changes(series.results, run)]

    quiet: Callable[[int], float] = lambda number: 1.0 if number < 8 else 1.08  # noqa: E731
    fired = {number: told(series.measure(number, batch=quiet(number))) for number in range(13)}
    alerts = [(number, alert) for number, found in fired.items() for alert in found]
    assert [alert for _, alert in alerts if alert[0] == "speedup_vs_serial"] == [("speedup_vs_serial", series.commits[8])]
    assert min(number for number, _ in alerts) > 8, "not before it could be seen"
    assert told(series.measure(3)) == []
    assert len(change_points(series.results)) == len(alerts)


def test_accept_and_waive_from_the_command_line(series: Series) -> None:
    def paceline(*arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--results", str(series.results)])

    series.night(0)
    series.night(1, batch=1.1)
    short, repo = series.commits[1][:8], ["--repo", str(series.repo)]
    done = paceline("accept", short, "--because", "the price", "--target", "no worse", *repo)
    assert (done.exit_code, done.output) == (0, f"{series.commits[1][:10]} is accepted for no worse: the price\n")
    assert paceline("waive", "floor", "--until", "2099-01-01", "--because", "known").exit_code == 0
    kept = query(series.results, 'SELECT kind, "commit", target, until::VARCHAR AS until, because FROM decisions ORDER BY kind')
    assert kept.fillna("").values.tolist() == [
        ["acceptance", series.commits[1], "no worse", "", "the price"],
        ["waiver", "", "floor", "2099-01-01", "known"],
    ]
    for arguments, message in (
        (["accept", short, "--because", " ", *repo], "--because ' ': a text is needed"),
        (["accept", "nothing", "--because", "x", *repo], "'nothing': no commit, branch or tag"),
        (["accept", series.commits[9], "--because", "x", *repo], "never measured"),
        (["waive", "flor", "--until", "2099-01-01", "--because", "x"], "known are floor, no worse"),
        (["waive", "floor", "--until", "2001-01-01", "--because", "x"], "--until 2001-01-01: lies in the past"),
    ):
        refused = paceline(*arguments)
        assert refused.exit_code == 2
        assert message in refused.output
