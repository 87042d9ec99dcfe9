"""The plan of a run: ordered blocks of pairs, worked out from the parameters alone.

A pair is serial and batch at one level, in random order; a block is one pair of every level, the levels shuffled. A canary is a
pair too, of one leg and itself; where there are any, they stand among the others. The order follows from the seed by a digest,
so that block N is the same whether or not more blocks follow, in every version of Python; and it is written down (plan.json).
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from flows.other_kinds import Other, checks_of, others_of
from flows.parameters import ValidationParameters
from storage.records import Source, Spec

PLAN_VERSION: Literal[1] = 1

Mode = Literal["serial", "batch"]
Arm = Literal["a", "b"]
_T = TypeVar("_T")
MODES: tuple[Mode, ...] = get_args(Mode)
ARMS: tuple[Arm, ...] = get_args(Arm)


class PlanError(ValueError):
    """A plan that cannot be read, or that is not the one being resumed."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Measurement(_Frozen):
    """One process: one engine, one mode, one level."""

    name: str  # <workload>/<kind>-x<level>-<mode>/pair<NN>; unique in the run but for the attempt
    label: str  # for people: "serial x4 pair 3/5"
    spec: Spec

    @property
    def file_stem(self) -> str:
        """The name, usable in file names."""
        return self.name.replace("/", ".")


class Pair(_Frozen):
    """Both legs at one level, or both arms of a canary, in the order in which they run."""

    level: int
    pair: int
    canary: bool = False
    measurements: tuple[Measurement, Measurement]


class Block(_Frozen):
    """One pair of each level, in the order in which they run. `pair` numbers and block numbers agree, counted from 1."""

    block: int
    pairs: tuple[Pair, ...]


class Plan(_Frozen):
    """All that a run may measure: the blocks up to the last look."""

    plan_version: Literal[1] = PLAN_VERSION
    identity: str  # equal identities measure the same things in the same order on the same code
    tree: str  # digest of the engine under test
    source: Source | None = None  # for a host where the tree is a copy that git knows nothing of
    parameters: ValidationParameters
    stages: tuple[int, ...]  # pairs after which verdicts are looked at
    blocks: tuple[Block, ...]
    checks: tuple[Measurement, ...] = ()  # before the blocks
    others: tuple[Measurement, ...] = ()  # after them

    def stage_blocks(self, stage: int) -> tuple[Block, ...]:
        """Blocks that stage number `stage`, counted from 0, adds to those before it."""
        first = self.stages[stage - 1] if stage else 0
        return self.blocks[first : self.stages[stage]]

    def pairs(self) -> Iterator[Pair]:
        """Every pair, in order."""
        for block in self.blocks:
            yield from block.pairs

    def measurements(self) -> Iterator[Measurement]:
        """Every measurement, in order."""
        yield from self.checks
        for pair in self.pairs():
            yield from pair.measurements
        yield from self.others

    def stage_total(self, stage: int, levels: Collection[int]) -> int:
        """Measurements up to the end of a stage, where those after the first are about `levels` alone."""
        blocks = [(number, block) for number in range(stage + 1) for block in self.stage_blocks(number)]
        return sum(2 for number, block in blocks for pair in block.pairs if not number or pair.canary or pair.level in levels)


def make_plan(parameters: ValidationParameters, tree: str) -> Plan:
    """Lay out the blocks. `tree` is the digest of the engine under test."""
    blocks = tuple(_block(parameters, number) for number in range(1, parameters.stages[-1] + 1))
    after = 2 * sum(len(block.pairs) for block in blocks)
    return Plan(
        identity=plan_identity(parameters, tree),
        tree=tree,
        parameters=parameters,
        stages=parameters.stages,
        blocks=blocks,
        checks=tuple(_other(parameters, other, 0) for other in checks_of(parameters)),
        others=tuple(_other(parameters, other, order) for order, other in enumerate(others_of(parameters), after)),
    )


def plan_identity(parameters: ValidationParameters, tree: str) -> str:
    """Digest of what is measured and in which order; where results go and how long it may take is no part of it."""
    apart = {"results", "run", "budget_minutes", "deadline_minutes", "canary", "interleave"}
    content = parameters.model_dump(mode="json", exclude=apart)
    content |= {"canary": True} if parameters.with_canary else {}
    content |= {"in_turns": True} if parameters.in_turns else {}  # identities of plans from before turns stay as they were
    return _digest("plan", PLAN_VERSION, tree, json.dumps(content, sort_keys=True))[:16]


def measurement_of(parameters: ValidationParameters, number: int, level: int, mode: Mode, order: int) -> Measurement:
    """One process of the plan. `number` is that of its pair, `order` its place in the run."""
    kind = "latency" if level == 1 else "throughput"
    spec = Spec(
        kind=kind,
        workload=parameters.workload,
        mode=mode,
        level=level,
        tp=parameters.tp,
        slots=parameters.slots_at(level),
        context=parameters.slot_context,
        prompt_tokens=parameters.prompt_tokens,
        new_tokens=parameters.new_tokens,
        warmup=parameters.warmup,
        runs=parameters.runs,
        seed=parameters.seed,
        checkpoint=parameters.checkpoint,
        devices=parameters.devices,
        threads=parameters.threads,
        pair=number,
        block=number,
        order=order,
    )
    return Measurement(
        name=f"{parameters.workload}/{kind}-x{level}-{mode}/pair{number:02d}",
        label=f"{mode} x{level} pair {number}/{parameters.stages[-1]}",
        spec=spec,
    )


def _other(parameters: ValidationParameters, other: Other, order: int) -> Measurement:
    """One that belongs to no pair, so that its pair and block are 0."""
    spec = measurement_of(parameters, 0, other.level, other.mode, order).spec
    changes = {"kind": other.kind, **other.changes}
    return Measurement(name=f"{parameters.workload}/{other.name}", label=other.label, spec=spec.model_copy(update=changes))


def missing(pairs: Iterable[Pair], done: Collection[str]) -> tuple[Pair, ...]:
    """Pairs of which at least one leg has no usable record. `done` are names of measurements."""
    return tuple(pair for pair in pairs if any(measurement.name not in done for measurement in pair.measurements))


def write_plan(plan: Plan, path: Path) -> None:
    """Write plan.json, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(plan.model_dump_json(indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def read_plan(path: Path) -> Plan:
    """Read plan.json. Raises PlanError with the file and the field."""
    try:
        return Plan.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}; name a run that has begun, or leave it out") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise PlanError(
            f"{path}: field {'.'.join(map(str, first['loc']))}: {first['msg']}: not a plan of this version"
        ) from error


def _block(parameters: ValidationParameters, number: int) -> Block:
    levels: list[tuple[int, Mode | None]] = [(level, None) for level in parameters.measured_levels]
    legs = [*_shuffled(levels, parameters.seed, "levels", number, of=lambda leg: leg[0])]
    if parameters.with_canary:
        watched = _shuffled(watched_legs(parameters), parameters.seed, "canary", number)
        at = int(_digest(parameters.seed, "canary's place", number), 16) % (len(legs) + 1)
        legs[at:at] = watched
    width = len(legs)
    return Block(
        block=number,
        pairs=tuple(
            _pair(parameters, number, level, 2 * ((number - 1) * width + place))
            if mode is None
            else canary_pair(parameters, number, (level, mode), 2 * ((number - 1) * width + place))
            for place, (level, mode) in enumerate(legs)
        ),
    )


def watched_legs(parameters: ValidationParameters) -> tuple[tuple[int, Mode], ...]:
    """Levels and modes that the canary measures: the lone request, and the most at once."""
    return ((1, "serial"), (parameters.measured_levels[-1], "batch"))


def _pair(parameters: ValidationParameters, number: int, level: int, first_order: int) -> Pair:
    modes = _shuffled(MODES, parameters.seed, "modes", number, level)
    first, second = (measurement_of(parameters, number, level, mode, first_order + leg) for leg, mode in enumerate(modes))
    return Pair(level=level, pair=number, measurements=(first, second))


def canary_pair(parameters: ValidationParameters, number: int, leg: tuple[int, Mode], first_order: int) -> Pair:
    """Both arms of one leg (level, mode), in an order that follows from the seed."""
    arms = _shuffled(ARMS, parameters.seed, "arms", number, *leg)
    first, second = (canary_arm(parameters, number, leg, arm, first_order + place) for place, arm in enumerate(arms))
    return Pair(level=leg[0], pair=number, canary=True, measurements=(first, second))


def canary_arm(parameters: ValidationParameters, number: int, leg: tuple[int, Mode], arm: Arm, order: int) -> Measurement:
    """One arm of a canary: the leg (level, mode) as it is measured for the targets, under another name."""
    level, mode = leg
    spec = measurement_of(parameters, number, level, mode, order).spec
    return Measurement(
        name=f"{parameters.workload}/canary-x{level}-{mode}-{arm}/pair{number:02d}",
        label=f"canary {mode} x{level} pair {number} {arm}",
        spec=spec.model_copy(update={"kind": "canary", "extra": {"arm": arm}}),
    )


def _shuffled(values: Iterable[_T], *key: object, of: Callable[[_T], object] = lambda value: value) -> list[_T]:
    """The values in the order of their digests (of what `of` makes of them) under the key."""
    return sorted(values, key=lambda value: _digest(*key, of(value)))


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
