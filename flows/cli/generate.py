"""paceline generate and synth: the engine by itself, for holding it against others and for making checkpoints."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import told
from flows.cli.options import Mode, with_fields
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
    mode: Annotated[Mode, typer.Option("--mode", help="One request at a time, or the slot scheduler.")] = Mode.batch,
    logits: Annotated[
        Path | None, typer.Option("--logits", help="Also write float32 logits [prompts, new tokens, vocabulary].")
    ] = None,
) -> None:
    """Generate greedily from prompts of token ids, so that anyone can hold the engine against another."""
    from flows.cli.programs import build_folder, run_program
    from flows.settings import load_host

    with told():
        host = load_host(given)
        build = build_folder(host)
    arguments: list[object] = ["--build", build, "--cache", host.cache, "--checkpoint", checkpoint, "--prompt-ids", prompt_ids]
    arguments += ["--new-tokens", new_tokens, "--tp", tp, "--mode", mode, "--out", out]
    sys.exit(run_program("generate", [*arguments, *(["--logits", logits] if logits else [])]))


def synth(
    spec: Annotated[
        str, typer.Argument(help="<shape>[@seed], synthetic: before it or not; an unknown shape names those there are.")
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder: config.json and safetensors files, as any checkpoint has.")],
    shards: Annotated[int, typer.Option("--shards", min=1, help="Files to split the tensors over.")] = 1,
) -> None:
    """Save a synthetic checkpoint as a real Hugging Face folder."""
    from flows.cli.programs import run_program

    sys.exit(run_program("synth", [spec, "--out", out, "--shards", shards]))
