"""Where settings come from, which source wins, and what faults say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows import settings
from flows.settings import SettingsError, load_host, load_parameters, prepare_prefect


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current folder and no variables of ours or of Prefect's."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("PACELINE_", "PREFECT_")):
            monkeypatch.delenv(name)


def test_command_line_over_variable_over_file_over_default(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("paceline.toml").write_text("tp = 1\nruns = 2\nseed = 3\nlevels = [2]\n")
    monkeypatch.setenv("PACELINE_RUNS", "7")
    monkeypatch.setenv("PACELINE_SEED", "8")
    parameters = load_parameters({"seed": 9})
    assert (parameters.tp, parameters.runs, parameters.seed, parameters.levels, parameters.looks) == (1, 7, 9, (2,), (3, 12))


def test_lists_and_flags_come_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_LEVELS", "2,16")
    monkeypatch.setenv("PACELINE_QUICK", "true")
    parameters = load_parameters({})
    assert parameters.levels == (2, 16)
    assert parameters.quick


def test_workload_of_the_file_is_filled_under_fields_of_the_command_line() -> None:
    Path("paceline.toml").write_text('workload = "latency"\n')
    parameters = load_parameters({"new_tokens": 5})
    assert (parameters.workload, parameters.prompt_tokens, parameters.new_tokens) == ("latency", 32, 5)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("option", "--tp 0: Input should be greater than or equal to 1"),
        ("variable", "PACELINE_TP 0: Input should be greater than or equal to 1"),
        ("file", "paceline.toml: tp 0: Input should be greater than or equal to 1"),
    ],
)
def test_a_bad_value_names_its_source(where: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "variable":
        monkeypatch.setenv("PACELINE_TP", "0")
    elif where == "file":
        Path("paceline.toml").write_text("tp = 0\n")
    with pytest.raises(SettingsError) as caught:
        load_parameters({"tp": 0} if where == "option" else {})
    assert str(caught.value) == expected


def test_unknown_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("paceline.toml").write_text("levles = [2]\n")
    with pytest.raises(SettingsError, match=r"paceline\.toml: levles: unknown; known are .*levels"):
        load_parameters({})
    Path("paceline.toml").unlink()
    monkeypatch.setenv("PACELINE_LEVLES", "2")
    with pytest.raises(SettingsError, match=r"PACELINE_LEVLES: unknown; known are .*PACELINE_LEVELS"):
        load_parameters({})


def test_broken_file_is_named() -> None:
    Path("paceline.toml").write_text("tp = \n")
    with pytest.raises(SettingsError, match=r"paceline\.toml: not readable as TOML"):
        load_parameters({})


def test_host_settings_have_a_table_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("paceline.toml").write_text('tp = 2\n[host]\nbuild_minutes = 3\ncompiler = "clang++"\n')
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    host = load_host({"compiler": "g++"})
    assert (host.build_minutes, host.compiler, host.cache) == (3, "g++", Path("/somewhere/paceline"))
    assert load_parameters({}).tp == 2


def test_prefect_stays_quiet_and_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "true")
    before = dict(os.environ)
    try:
        prepare_prefect(tmp_path)
        assert os.environ["PREFECT_HOME"] == str(tmp_path / "prefect")
        assert os.environ["DO_NOT_TRACK"] == "1"
        assert os.environ["PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED"] == "false"
        assert os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] == "true", "the user's own value stays"
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_server_of_the_user_keeps_its_profile_and_its_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    before = dict(os.environ)
    try:
        prepare_prefect(tmp_path)
        added = set(os.environ) - set(before)
        assert "PREFECT_HOME" not in added
        assert not {name for name in added if name.startswith("PREFECT_SERVER_SERVICES")}
        assert settings.prefect_api_url() == "http://127.0.0.1:4200/api"
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_settings_load_no_prefect() -> None:
    code = "import flows.settings, flows.server, flows.launch, sys; sys.exit('prefect' in sys.modules)"
    root = Path(settings.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
