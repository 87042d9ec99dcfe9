"""Checks a checkpoint: the native engine against the torch reference, as a whole and layer by layer, and says where they part.

Whole: prompts are run natively, and the reference is given the same tokens, so that one differing choice does not cascade.
By layer: the engine serves the first k layers as a model of its own (final norm and head on the hidden state after layer k),
which is compared with the reference's reading of that same state. No hook into the engine is needed, so any build can be checked.

The engine is judged by the reference that rounds activations to BF16 where the engine does: what is left between the two is the
order of sums. The distance to pure float32 stands beside it; some models amplify that rounding, and no kernel is to blame for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.checkpoint.synthetic import resolve
from engine.compare import TOLERANCE, Agreement, compare
from engine.config import read_config
from engine.handle import Generation
from engine.options import SessionOptions
from engine.reference import Output, Reference
from engine.session import Session

Say = Callable[[str], object]
_Array = npt.NDArray[np.float32]
_FIRST = (1, 2, 3, 4, 8, 16, 32)  # depths looked at before any search


@dataclass(frozen=True)
class DepthResult:
    """The first `layers` layers, over all prompts."""

    layers: int
    kind: str  # of the last of them
    rounded: Agreement  # with the reference that rounds as the engine does
    wide: Agreement  # with pure float32


@dataclass(frozen=True)
class CheckReport:
    """What a check found. The comparisons with the rounded reference decide, those with pure float32 are told."""

    checkpoint: str
    prompt_lengths: tuple[int, ...]
    rounded: tuple[Agreement, ...]  # one a prompt
    wide: tuple[Agreement, ...]  # one a prompt
    depths: tuple[DepthResult, ...]  # in the order of depth

    @property
    def passed(self) -> bool:
        """Every comparison with the rounded reference is within the tolerance."""
        return all(a.passed for a in self.rounded) and self.parts_at is None

    @property
    def parts_at(self) -> int | None:
        """The first depth (in layers) whose error is above the tolerance, None when there is none."""
        return next((d.layers for d in self.depths if d.rounded.relative_error > TOLERANCE), None)

    @property
    def amplified(self) -> bool:
        """Whether rounding activations to BF16 carries this model beyond the tolerance, though the engine does it rightly."""
        return self.passed and any(not a.passed for a in (*self.wide, *(d.wide for d in self.depths)))

    def lines(self) -> list[str]:
        """The report as text."""
        out = [
            f"{self.checkpoint}: native against torch, relative logit error (at most {TOLERANCE} with the engine's BF16 rounding)"
        ]
        for length, rounded, wide in zip(self.prompt_lengths, self.rounded, self.wide, strict=True):
            differs = f"differs at {list(rounded.differing)}" if rounded.differing else "too far"
            state = "ok" if rounded.passed else differs
            errors = f"{rounded.relative_error:.2e}, worst {rounded.worst_error:.2e}, to pure float32 {wide.relative_error:.2e}"
            out.append(f"  prompt of {length:4d}: {errors}, clear {rounded.clear}/{rounded.positions}: {state}")
        out += [
            f"  after layer {d.layers - 1:3d} ({d.kind}): {d.rounded.relative_error:.2e}, "
            f"to pure float32 {d.wide.relative_error:.2e}"
            for d in self.depths
        ]
        if self.parts_at is not None:
            out.append(f"  they part in layer {self.parts_at - 1}: the layers before it agree")
        if self.amplified:
            out.append("  beyond the tolerance from pure float32: this model amplifies the rounding of activations to BF16")
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
    say("reference: the same tokens with BF16 rounding, then in pure float32")
    fed = [prompt + list(generation.tokens[:-1]) for prompt, generation in zip(prompts, native, strict=True)]
    rounded, wide = (_Side(Reference(source, rounded=narrow), fed) for narrow in (True, False))
    whole = [side.agreements(native, prompts) for side in (rounded, wide)]
    depths = _Depths(folder, options, prompts, (rounded, wide), say).search(config.num_layers)
    return CheckReport(str(checkpoint), tuple(prompt_lengths), whole[0], whole[1], depths)


class _Side:
    """One of the two references, and what it makes of the tokens that were fed."""

    def __init__(self, reference: Reference, fed: list[list[int]]) -> None:
        self._reference, self._fed = reference, fed

    @cached_property
    def _outputs(self) -> list[Output]:
        return self._reference.forward(self._fed, keep_hidden=True)

    def agreements(self, native: Sequence[Generation], prompts: list[list[int]]) -> tuple[Agreement, ...]:
        """Of each whole answer."""
        return tuple(
            compare(_logits(generation.logits), output.logits[len(prompt) - 1 :])
            for prompt, generation, output in zip(prompts, native, self._outputs, strict=True)
        )

    def at_depth(self, depth: int, native: _Array, prompts: list[list[int]]) -> Agreement:
        """Of what the first `depth` layers make of each prompt's last token [prompts, vocabulary]."""
        rows = [output.hidden[depth][len(prompt) - 1][None] for prompt, output in zip(prompts, self._outputs, strict=True)]
        return compare(native, self._reference.read_out(np.concatenate(rows)))


class _Depths:
    """Compares the first k layers, for as many k as it takes."""

    def __init__(
        self, folder: Path, options: SessionOptions, prompts: list[list[int]], sides: tuple[_Side, _Side], say: Say
    ) -> None:
        self._folder, self._options, self._prompts, self._sides, self._say = folder, options, prompts, sides, say
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
        native = np.concatenate([_logits(g.logits) for g in generations])
        rounded, wide = (side.at_depth(depth, native, self._prompts) for side in self._sides)
        self._found[depth] = DepthResult(depth, config.layer_types[-1], rounded, wide)
        return rounded.relative_error <= TOLERANCE


def _logits(logits: _Array | None) -> _Array:
    if logits is None:
        raise ValueError("logits: found none, expected those of a request with keep_logits")
    return logits
