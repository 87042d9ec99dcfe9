"""Settings of the service: where they come from, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from flows.settings import HostSettings, SettingsError
from flows.up import UpError, run
from flows.up_settings import UpSettings, load_up, variables


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_defaults_bind_to_loopback_at_two_in_the_morning() -> None:
    settings = load_up()
    assert (settings.address, settings.public, settings.schedule) == ("127.0.0.1", False, "0 2 * * *")


def test_the_command_line_wins_over_variables_over_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("paceline.toml").write_text('[up]\nport = 1\npages_port = 2\ntimezone = "Europe/Berlin"\n')
    monkeypatch.setenv("PACELINE_UP_PORT", "3")
    monkeypatch.setenv("PACELINE_UP_PAGES_PORT", "4")
    settings = load_up({"port": 5})
    assert (settings.port, settings.pages_port, settings.timezone) == (5, 4, "Europe/Berlin")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"timezone": "Mars/Base"}, "--timezone Mars/Base: no such time zone"),
        ({"schedule": "0 25 * * *"}, "--schedule 0 25 * * *: must be five cron fields"),
        ({"schedule": "@daily"}, "must be five cron fields"),
        ({"port": 0}, "--port 0: Input should be greater than or equal to 1"),
        ({"notify": "team"}, "--notify team"),
        ({"commit_url": "https://example.org"}, "--commit-url"),
        ({"checkpoints": "/nowhere"}, "/nowhere: not a folder"),
        ({"colour": "red"}, "colour: unknown; known are"),
    ],
)
def test_each_mistake_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_up(given)
    assert words in str(caught.value)


@pytest.mark.parametrize("schedule", ["0 2 * * *", "*/15 1-3 1,15 jan-mar mon-fri", "30 2 * * 0"])
def test_real_schedules_pass(schedule: str) -> None:
    assert load_up({"schedule": schedule}).schedule == schedule


def test_what_is_handed_down_resolves_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "c").mkdir()
    given = load_up({"checkpoints": f"{tmp_path / 'a b'}:{tmp_path / 'c'}", "notify": "slack-webhook/team", "results": "r"})
    for name, value in variables(given, HostSettings(cache=tmp_path)).items():
        monkeypatch.setenv(name, value)
    again = load_up()
    assert again == given.model_copy(update={"results": tmp_path / "r"})
    assert HostSettings().cache == tmp_path


@pytest.mark.parametrize("auth", [None, "", "admin", "admin:", ":secret"])
def test_another_address_needs_prefects_authentication(auth: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("PREFECT_SERVER_API_AUTH_STRING", raising=False)
    if auth is not None:
        monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", auth)
    with pytest.raises(UpError, match="PREFECT_SERVER_API_AUTH_STRING=user:password"):
        run(UpSettings(address="0.0.0.0"), HostSettings(cache=tmp_path), print)  # noqa: S104
    assert list(tmp_path.iterdir()) == [], "nothing was started"
