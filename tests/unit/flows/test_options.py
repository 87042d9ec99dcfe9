"""Options of the command line are the models' fields, each with description and default."""

import re

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.cli.options import option_name
from flows.parameters import ValidationParameters
from flows.settings import HostSettings

runner = CliRunner()


def text_of(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments), env={"COLUMNS": "400"})
    assert result.exit_code == 0, result.output
    return re.sub(r"\s+", " ", result.output)


@pytest.mark.parametrize("model", [ValidationParameters, HostSettings])
def test_validate_documents_every_field(model: type[ValidationParameters] | type[HostSettings]) -> None:
    shown = text_of("validate", "--help")
    for name, field in model.model_fields.items():
        assert option_name(name) in shown
        assert re.sub(r"\s+", " ", str(field.description)) in shown, name


@pytest.mark.parametrize("default", ["(synthetic:small@0)", "(4)", "(2,4,8)", "(16)", "(32)", "(report)", "(no)"])
def test_validate_shows_defaults(default: str) -> None:
    assert f"[default: {default}]" in text_of("validate", "--help")


def test_every_command_has_help() -> None:
    listed = re.findall(r"^  (\w[\w-]*)  ", runner.invoke(app, ["--help"]).output.partition("Commands:")[2], re.MULTILINE)
    assert {"validate", "plan", "measure", "generate", "synth", "build", "sql", "ingest", "rebuild", "doctor"} <= set(listed)
    for command in listed:
        assert len(text_of(command, "--help")) > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--levels", "2,two"], "--levels two: Input should be a valid integer"),
        (["--levels", "0"], "--levels 0: Input should be greater than or equal to 1"),
        (["--levels", ""], "--levels : Tuple should have at least 1 item"),
        (["--looks", "1"], "--looks 1: Input should be greater than or equal to 2"),
        (["--tp", "0"], "--tp 0: Input should be greater than or equal to 1"),
        (["--workload", "other"], "--workload other: Input should be 'report', 'latency' or 'throughput'"),
        (["--context", "8"], "context 8: prompt and new tokens need 16 + 32 = 48"),
    ],
)
def test_bad_values_end_with_two_and_one_line(arguments: list[str], message: str) -> None:
    result = runner.invoke(app, ["validate", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "command", [["measure", "latency"], ["generate", "--checkpoint", "x", "--prompt-ids", "x", "--out", "x"]], ids=lambda c: c[0]
)
def test_an_unknown_mode_is_refused_by_the_command_itself(command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--mode", "foo"])
    assert result.exit_code == 2
    assert "Invalid value for '--mode'" in result.stderr
    assert "'foo' is not one of 'serial', 'batch'" in result.stderr
    assert "flows.measurements" not in result.stderr


def test_a_folder_without_sources_ends_with_two(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["build"])
    assert result.exit_code == 2
    assert "no engine sources here" in result.stderr
