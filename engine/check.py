"""Checks a checkpoint: the native engine against the torch reference, as a whole and layer by layer, and says where they part.

Whole: prompts are run natively, and the reference is given the same tokens, so that one differing choice does not cascade.
By layer: the engine serves the first k layers as a model of its own (final norm and head on the hidden state after layer k),
which is compared with the reference's reading of that same state. No hook into the engine is needed, so any build can be checked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.checkpoint.synthetic import resolve
from engine.compare import TOLERANCE, Agreement, compare, relative_error
from engine.config import read_config
from engine.options import SessionOptions
from engine.reference import Output, Reference
from engine.session import Session

Say = Callable[[str], object]
_FIRST = (1, 2, 3, 4, 8, 16, 32)  # depths looked at before any search


@dataclass(frozen=True)
class DepthResult:
    """The first `layers` layers, over all prompts."""

    layers: int
    kind: str  # of the last of them
    agreement: Agreement


@dataclass(frozen=True)
class CheckReport:
    """What a check found."""

    checkpoint: str
    prompt_lengths: tuple[int, ...]
    whole: tuple[Agreement, ...]  # one a prompt
    rounded: tuple[float, ...]  # one a prompt: relative error against the reference with the engine's BF16 rounding
    depths: tuple[DepthResult, ...]  # in the order of depth

    @property
    def passed(self) -> bool:
        """Every comparison within the tolerance."""
        return all(a.passed for a in self.whole) and self.parts_at is None

    @property
    def parts_at(self) -> int | None:
        """The first depth (in layers) whose error is above the tolerance, None when there is none."""
        return next((d.layers for d in self.depths if d.agreement.relative_error > TOLERANCE), None)

    def lines(self) -> list[str]:
        """The report as text."""
        out = [f"{self.checkpoint}: native against the float32 reference, relative logit error (at most {TOLERANCE})"]
        for length, a, rounded in zip(self.prompt_lengths, self.whole, self.rounded, strict=True):
            state = "ok" if a.passed else f"differs at {list(a.differing)}" if a.differing else "too far"
            errors = f"{a.relative_error:.2e}, worst {a.worst_error:.2e}, with its BF16 rounding {rounded:.2e}"
            out.append(f"  prompt of {length:4d}: {errors}, clear {a.clear}/{a.positions}: {state}")
        out += [f"  after layer {d.layers - 1:3d} ({d.kind}): {d.agreement.relative_error:.2e}" for d in self.depths]
        if self.parts_at is not None:
            out.append(f"  they part in layer {self.parts_at - 1}: the layers before it agree")
        if not self.passed and max(self.rounded) < TOLERANCE / 2:
            out.append("  the rounding of activations to BF16 alone explains it: this model amplifies it, the kernels are right")
        if not self.passed and self.parts_at is None:
            out.append("  every depth agrees after the prompt; what differs is decoding or a single choice")
        return out


def check(
    checkpoint: str | Path,
    options: SessionOptions,
    *,
    prompt_lengths: Sequence[int] = (1, 16, 97),
    new_tokens: int = 4,
    seed: int = 0,
    say: Say = lambda _line: None,
    cache: Path | None = None,
) -> CheckReport:
    """Check `checkpoint` as `options` serve it. `say` is told what runs.

    Raises what Session.open raises; needs torch. All depths are compared up to 4 layers, then powers of two; where two of them
    disagree, the depth at which they part is searched for between.
    """
    folder = resolve(checkpoint, cache)
    config = read_config(folder)
    source = Source(config, Checkpoint(folder))
    draw = np.random.default_rng(seed)
    prompts = [draw.integers(0, config.vocab_size, length).tolist() for length in prompt_lengths]
    say(f"native: {config.num_layers} layers, {len(prompts)} prompts")
    with Session.load(source, options) as session:
        native = session.generate(prompts, new_tokens, keep_logits=True)
    say("reference: the same tokens in float32, then with BF16 rounding")
    reference = Reference(source)
    fed = [prompt + list(generation.tokens[:-1]) for prompt, generation in zip(prompts, native, strict=True)]
    outputs = reference.forward(fed, keep_hidden=True)
    whole = [
        compare(_logits(generation.logits), output.logits[len(prompt) - 1 :])
        for prompt, generation, output in zip(prompts, native, outputs, strict=True)
    ]
    rounded = [
        relative_error(_logits(generation.logits), output.logits[len(prompt) - 1 :])
        for prompt, generation, output in zip(prompts, native, Reference(source, rounded=True).forward(fed), strict=True)
    ]
    depths = _Depths(folder, options, prompts, (reference, outputs), say)
    return CheckReport(str(checkpoint), tuple(prompt_lengths), tuple(whole), tuple(rounded), depths.search(config.num_layers))


class _Depths:
    """Compares the first k layers, for as many k as it takes."""

    def __init__(
        self,
        folder: Path,
        options: SessionOptions,
        prompts: list[list[int]],
        reference: tuple[Reference, list[Output]],
        say: Say,
    ) -> None:
        self._folder, self._options, self._prompts, self._say = folder, options, prompts, say
        self._reference, self._outputs = reference
        self._found: dict[int, DepthResult] = {}

    def search(self, layers: int) -> tuple[DepthResult, ...]:
        good = 0
        for depth in sorted({d for d in (*_FIRST, layers) if d <= layers}):
            if not self._within(depth):
                self._narrow(good, depth)
                break
            good = depth
        return tuple(self._found[depth] for depth in sorted(self._found))

    def _narrow(self, good: int, bad: int) -> None:
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._within(middle) else (good, middle)

    def _within(self, depth: int) -> bool:
        self._say(f"after layer {depth - 1}")
        config = read_config(self._folder).truncated(depth)
        with Session.load(Source(config, Checkpoint(self._folder), partial=True), self._options) as session:
            generations = session.generate(self._prompts, 1, keep_logits=True)
        out = np.concatenate([_logits(g.logits) for g in generations])
        rows = [output.hidden[depth][len(prompt) - 1][None] for prompt, output in zip(self._prompts, self._outputs, strict=True)]
        agreement = compare(out, self._reference.read_out(np.concatenate(rows)))
        self._found[depth] = DepthResult(depth, config.layer_types[-1], agreement)
        return agreement.relative_error <= TOLERANCE


def _logits(
    logits: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None,
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if logits is None:
        raise ValueError("logits: found none, expected those of a request with keep_logits")
    return logits
