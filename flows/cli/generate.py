"""paceline generate and synth: the engine by itself, for holding it against others and for making checkpoints."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.errors import told
from flows.cli.options import with_fields
from flows.settings import HostSettings

_LEFT_OUT = ("targets",)
_Checkpoint = Annotated[str, typer.Option("--checkpoint", help="Hugging Face folder, or synthetic:<shape>[@seed].")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(generate)
    app.command()(synth)


@with_fields(HostSettings, leave_out=_LEFT_OUT)
def generate(
    given: dict[str, Any],
    *,
    checkpoint: _Checkpoint,
    prompt_ids: Annotated[Path, typer.Option("--prompt-ids", help="JSON file: a list of lists of token ids, of any lengths.")],
    out: Annotated[Path, typer.Option("--out", help='Where to write {"tokens": [[...], ...], ...}.')],
    new_tokens: Annotated[int, typer.Option("--new-tokens", min=1, help="Tokens to generate for each prompt.")] = 32,
    tp: Annotated[int, typer.Option("--tp", min=1, help="Tensor-parallel ranks.")] = 1,
    mode: Annotated[str, typer.Option("--mode", metavar="serial|batch", help="How the engine serves.")] = "batch",
    logits: Annotated[
        Path | None, typer.Option("--logits", help="Also write float32 logits [prompts, new tokens, vocabulary].")
    ] = None,
) -> None:
    """Generate greedily from prompts of token ids, so that anyone can hold the engine against another."""
    arguments = ["--checkpoint", checkpoint, "--prompt-ids", prompt_ids, "--new-tokens", new_tokens, "--tp", tp]
    arguments += ["--mode", mode, "--out", out, *(["--logits", logits] if logits else [])]
    _run("generate", given, list(map(str, arguments)))


@with_fields(HostSettings, leave_out=_LEFT_OUT)
def synth(
    given: dict[str, Any],
    spec: Annotated[str, typer.Argument(help="synthetic:<shape>[@seed], or <shape>[@seed]: tiny, small, qwen3-0.6b.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write: config.json and safetensors files, as any checkpoint.")],
) -> None:
    """Save a synthetic checkpoint as a real Hugging Face folder."""
    _run("synth", given, [spec, "--out", str(out)])


def _run(program: Literal["generate", "synth"], given: dict[str, Any], arguments: list[str]) -> None:
    """Run the program with the engine of the build; its exit code is ours."""
    from flows.build import build_engine, open_build
    from flows.settings import harness_environment, load_host
    from flows.source import find_repo

    with told():
        host = load_host(given)
        if host.build:
            built = open_build(host.build)
        else:
            built, _ = build_engine(find_repo(host.repo), host, host.cache / "builds" / "last.log")
    command = [sys.executable, "-P", "-m", f"flows.measurements.{program}", "--build", str(built.folder), *arguments]
    sys.exit(subprocess.run(command, env=harness_environment(), check=False).returncode)
