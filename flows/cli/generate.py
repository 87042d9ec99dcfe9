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
    arguments = [
        "--build",
        _build_folder(given),
        "--checkpoint",
        checkpoint,
        "--prompt-ids",
        prompt_ids,
        "--new-tokens",
        new_tokens,
        "--tp",
        tp,
    ]
    arguments += ["--mode", mode, "--out", out, *(["--logits", logits] if logits else [])]
    sys.exit(_program("generate", list(map(str, arguments))))


def synth(
    spec: Annotated[str, typer.Argument(help="synthetic:<shape>[@seed], or <shape>[@seed]: tiny, small, qwen3-0.6b.")],
    out: Annotated[Path, typer.Option("--out", help="New folder: config.json and safetensors files, as any checkpoint has.")],
    shards: Annotated[int, typer.Option("--shards", min=1, help="Files to split the tensors over.")] = 1,
) -> None:
    """Save a synthetic checkpoint as a real Hugging Face folder."""
    sys.exit(_program("synth", [spec, "--out", str(out), "--shards", str(shards)]))


def _build_folder(given: dict[str, Any]) -> Path:
    from flows.build import build_engine, open_build
    from flows.settings import load_host
    from flows.source import find_repo

    with told():
        host = load_host(given)
        if host.build:
            return open_build(host.build).folder
        built, _ = build_engine(find_repo(host.repo), host, host.cache / "builds" / "last.log")
        return built.folder


def _program(name: Literal["generate", "synth"], arguments: list[str]) -> int:
    """Run a measuring program in this terminal; returns its exit code."""
    from flows.settings import harness_environment

    command = [sys.executable, "-P", "-m", f"flows.measurements.{name}", *arguments]
    return subprocess.run(command, env=harness_environment(), check=False).returncode
