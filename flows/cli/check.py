"""paceline check and quantise: is a checkpoint served rightly, and its form in FP8 blocks."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import told
from flows.cli.options import with_fields
from flows.settings import HostSettings

_Checkpoint = Annotated[str, typer.Argument(help="Hugging Face folder, or synthetic:<shape>[@seed].")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(check)
    app.command()(quantise)


@with_fields(HostSettings, leave_out=("targets", "wait_minutes"))
def check(
    given: dict[str, Any],
    checkpoint: _Checkpoint,
    *,
    tp: Annotated[int, typer.Option("--tp", min=1, help="Tensor-parallel ranks.")] = 1,
    isa: Annotated[str, typer.Option("--isa", help="CPU kernel path: amx, avx512_bf16, avx512, avx2, portable.")] = "auto",
    devices: Annotated[str, typer.Option("--devices", help="cpu, or cuda:0,1 and so on.")] = "cpu",
    prompts: Annotated[str, typer.Option("--prompts", help="Lengths of the prompts to run.")] = "1,16,97",
    new_tokens: Annotated[int, typer.Option("--new-tokens", min=1, help="Tokens to generate after each.")] = 4,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the prompts.")] = 0,
) -> None:
    """Hold the engine against a plain float32 forward pass in torch, layer by layer, and say where they part.

    Needs the extra `reference` (torch). Exit codes: 0 they agree, 1 they part, 2 the checkpoint cannot be checked.
    """
    from flows.cli.programs import build_folder, run_program
    from flows.settings import load_host

    with told():
        host = load_host(given)
        build = build_folder(host)
    arguments: list[object] = ["--build", build, "--cache", host.cache, "--checkpoint", checkpoint, "--tp", tp, "--isa", isa]
    arguments += ["--devices", devices, "--prompts", prompts, "--new-tokens", new_tokens, "--seed", seed]
    sys.exit(run_program("check", arguments))


def quantise(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="Hugging Face folder with BF16, F16 or F32 weights.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder to write.")],
    scales: Annotated[str, typer.Option("--scales", metavar="float|ue8m0", help="How block scales are stored.")] = "float",
    leave: Annotated[
        list[str] | None,
        typer.Option("--leave", help="Module name ending to leave wide, many times. Left out: head and narrow b/a projections."),
    ] = None,
) -> None:
    """Write the FP8 form of a checkpoint: E4M3 weights with one scale a 128 x 128 block, as published ones have."""
    from flows.cli.programs import run_program

    sys.exit(run_program("quantise", [source, out, "--scales", scales, *(f"--leave={name}" for name in leave or ())]))
