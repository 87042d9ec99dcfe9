"""What one validation measures: the one parameter model of the flow, the command line, paceline.toml and the UI's form.

Pure: pydantic alone. Fields left out take the workload's values; a field that was given wins over its workload.
"""

import re
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

WorkloadName = Literal["report", "latency", "throughput"]
KindName = Literal["parity", "reference", "occupancy", "idle", "build_order", "steady_state"]
KINDS: tuple[KindName, ...] = get_args(KindName)
CHECKS: tuple[KindName, ...] = ("parity", "reference")  # these come before anything is timed, and no pair counts where one fails

# The predecessor's report, and its two programs with their own defaults.
WORKLOADS: dict[str, dict[str, int]] = {
    "report": {"prompt_tokens": 16, "new_tokens": 32, "warmup": 1, "runs": 5},
    "latency": {"prompt_tokens": 32, "new_tokens": 128, "warmup": 3, "runs": 10},
    "throughput": {"prompt_tokens": 32, "new_tokens": 128, "warmup": 1, "runs": 3},
}
LEAST_SLOTS = 8
CANARY_MINUTES = 15.0  # below that every minute goes to the targets
MOST_LEVELS = 16

Level = Annotated[int, Field(ge=1, le=1024)]


class ValidationParameters(BaseModel):
    """Every choice of one validation, resolved once and frozen. Unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Validation")

    workload: WorkloadName = Field(
        default="report",
        description="Named set of prompt tokens/new tokens/warm-up + rounds: report 16/32/1+5, latency 32/128/3+10, "
        "throughput 32/128/1+3. A field given beside it wins.",
    )
    checkpoint: str = Field(
        default="synthetic:small@0",
        min_length=1,
        max_length=4096,
        description="Hugging Face folder with safetensors, or synthetic:<shape>[@seed], made once and kept "
        "(shapes: tiny, small, small-fp8, small-dense, qwen3.5-0.8b and others; small is a Qwen3.5 hybrid of 250 MB).",
    )
    devices: str = Field(
        default="cpu", min_length=1, max_length=200, description="Where the engine runs: cpu, or cuda:0,1 and so on."
    )
    tp: int = Field(default=4, ge=1, le=64, description="Tensor-parallel ranks.")
    threads: int = Field(default=0, ge=0, le=1024, description="CPU threads over all ranks; 0: what the machine allows.")
    levels: tuple[Level, ...] = Field(
        default=(2, 4, 8),
        min_length=1,
        max_length=MOST_LEVELS,
        description="Concurrent requests to measure, such as 2,4,8,16. Level 1 is always measured, for the lone request's "
        "latency; a level without a target is shown without a verdict.",
    )
    slots: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Slots of the batch scheduler; requests beyond them wait. Left out: the level, at least 8.",
    )
    context: int | None = Field(
        default=None, ge=2, le=1_048_576, description="Positions a slot can hold. Left out: prompt and new tokens, exactly."
    )
    prompt_tokens: int = Field(default=16, ge=1, le=1_000_000, description="Tokens of each prompt. Left out: the workload's.")
    new_tokens: int = Field(
        default=32, ge=1, le=100_000, description="Tokens to generate for each request. Left out: the workload's."
    )
    warmup: int = Field(
        default=1, ge=0, le=1000, description="Rounds dropped at the start of a process. Left out: the workload's."
    )
    runs: int = Field(default=5, ge=1, le=1000, description="Rounds kept in a process. Left out: the workload's.")
    pairs: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Pairs of processes (serial and batch) at each level, a number fixed beforehand in place of looks. "
        "One pair gives a point without an interval.",
    )
    looks: tuple[Annotated[int, Field(ge=2, le=100)], ...] = Field(
        default=(3, 12),
        min_length=1,
        max_length=5,
        description="Planned looks, in pairs: only targets still undecided at a look get more pairs, up to the last one.",
    )
    quick: bool = Field(
        default=False, description="One pair a level, whatever looks and pairs say: a point without an interval, labelled so."
    )
    interleave: Literal["rounds", "legs"] | None = Field(
        default=None,
        description="How the two processes of a pair share the machine. rounds: both are loaded and take turns, so that both "
        "meet the same moods of the machine. legs: one after the other. Left out: rounds on the CPU; legs on GPUs, whose memory "
        "may not hold two engines.",
    )
    canary: bool | None = Field(
        default=None,
        description="Measure the build against itself in every block: the noise floor, and a night that is not to be trusted. "
        f"Left out: where the budget is {CANARY_MINUTES:g} minutes or more.",
    )
    kinds: tuple[KindName, ...] = Field(
        default=("parity",),
        max_length=len(KINDS),
        description="What else is measured, such as parity,idle, or all or none. Before the pairs: parity (serial against batch, "
        "bit by bit), reference (against plain torch). After them: occupancy, idle, build_order, steady_state.",
    )
    rate_per_s: float = Field(
        default=2.0, gt=0, le=1e5, allow_inf_nan=False, description="Arrivals of steady_state, requests a second."
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Seed of the prompts and of the order of measurements.")
    budget_minutes: float = Field(
        default=4.0,
        gt=0,
        le=24 * 60,
        allow_inf_nan=False,
        description="Minutes for measuring. The first pair of every level always runs; a later one only where it fits, so that "
        "what is left when a long pair no longer fits goes to shorter ones.",
    )
    deadline_minutes: float = Field(
        default=10.0,
        gt=0,
        le=24 * 60,
        allow_inf_nan=False,
        description="Longest time for a measurement of which nothing is known yet. Later ones get ten times the expected time, "
        "within this.",
    )
    results: str = Field(
        default="results", min_length=1, max_length=4096, description="Results folder: one folder a run, one store for all."
    )
    run: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$",
        description="Name of the run's folder. Left out: a new one. An earlier run's: measure only what it lacks.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_workload(cls, data: Any) -> Any:
        """Set what was left out from the named workload; a field that was given stays."""
        if not isinstance(data, dict):
            return data
        values = WORKLOADS.get(str(data.get("workload", "report")), {})  # an unknown name is refused by its own field
        return {**values, **{name: value for name, value in data.items() if not (value is None and name in values)}}

    @field_validator("kinds", mode="before")
    @classmethod
    def _named_together(cls, value: Any) -> Any:
        """Accept all and none, and "parity,idle" as well as a list."""
        if value in ("all", "none"):
            return KINDS if value == "all" else ()
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("kinds")
    @classmethod
    def _each_kind_once(cls, value: tuple[KindName, ...]) -> tuple[KindName, ...]:
        if len(set(value)) != len(value):
            raise ValueError(f"kinds {','.join(value)}: each kind once")
        return tuple(kind for kind in KINDS if kind in value)

    @field_validator("devices")
    @classmethod
    def _known_devices(cls, value: str) -> str:
        if not re.fullmatch(r"cpu|cuda(:\d+(,\d+)*)?", value):
            raise ValueError(f"devices {value!r}: must be cpu, cuda, cuda:0 or cuda:0,1 and so on")
        return value

    @field_validator("levels", "looks", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        """Accept "2,4,8" as well as a list."""
        if isinstance(value, int):
            return (value,)
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("levels")
    @classmethod
    def _sort_levels(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) != len(value):
            raise ValueError(f"levels {_joined(value)}: each level once")
        return tuple(sorted(value))

    @field_validator("looks")
    @classmethod
    def _ascending_looks(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if list(value) != sorted(set(value)):
            raise ValueError(f"looks {_joined(value)}: must ascend, such as 5,10,20")
        return value

    @model_validator(mode="after")
    def _fits_context(self) -> Self:
        needed = self.prompt_tokens + self.new_tokens
        if self.context is not None and self.context < needed:
            raise ValueError(
                f"context {self.context}: prompt and new tokens need {self.prompt_tokens} + {self.new_tokens} = {needed}"
            )
        return self

    @property
    def measured_levels(self) -> tuple[int, ...]:
        """Levels to measure, ascending; 1 is always among them."""
        return tuple(sorted({1, *self.levels}))

    @property
    def stages(self) -> tuple[int, ...]:
        """Pairs after which verdicts are looked at; the last is the most that will be bought."""
        if self.quick:
            return (1,)
        return (self.pairs,) if self.pairs is not None else self.looks

    @property
    def in_turns(self) -> bool:
        """Whether the legs of a pair take turns, round by round."""
        return self.interleave == "rounds" or (self.interleave is None and self.devices == "cpu")

    @property
    def with_canary(self) -> bool:
        """Whether the blocks hold the canary."""
        if self.canary is None:
            return self.budget_minutes >= CANARY_MINUTES and not self.quick
        return self.canary

    @property
    def slot_context(self) -> int:
        """Positions of a slot."""
        return self.context or self.prompt_tokens + self.new_tokens

    def slots_at(self, level: int) -> int:
        """Slots of the engine that serves `level` requests at once."""
        return self.slots or max(level, LEAST_SLOTS)


def _joined(values: tuple[int, ...]) -> str:
    return ",".join(str(value) for value in values)
