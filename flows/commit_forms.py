"""The forms of the deployments over commits. Commits are named as git names them; uncommitted work is measured from the command
line alone.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from flows.bisection import LOOKS, MINUTES, Asked, parse_target
from flows.commit_parameters import RANGE, REVISION, BackfillParameters, CommitRange
from flows.forms import ServedValidation
from flows.parameters import ValidationParameters
from flows.plan import MODES, Mode
from flows.revisions import WORKTREE
from flows.up_settings import UpSettings

_HOW = "How it is measured: the fields of a validation."


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServedBackfill(_Form):
    """Points for commits that have none."""

    model_config = ConfigDict(title="Backfill")

    range: CommitRange = Field(
        default="HEAD", pattern=RANGE, description="A..B: the commits that B has and A has not. B: all of B's history."
    )
    every: int = Field(default=1, ge=1, le=10_000, description="Measure every N-th commit of the range, and the last.")
    again: bool = Field(default=False, description="Measure commits once more that have a point already.")
    retry: bool = Field(default=False, description="Build commits again that are known not to build.")
    measure: ServedValidation = Field(default_factory=ServedValidation, description=_HOW)

    def resolved(self, settings: UpSettings) -> BackfillParameters:
        """The flow's own parameters, with the service's results folder."""
        given = self.model_dump(exclude={"measure"})
        return BackfillParameters(**given, measure=self.measure.resolved(settings))


class ServedBisect(_Form):
    """The commit that a loss came with."""

    model_config = ConfigDict(title="Bisect")

    good: str = Field(pattern=REVISION, description="Commit, branch or tag without the loss.")
    bad: str = Field(pattern=REVISION, description="Commit, branch or tag with it.")
    target: str = Field(
        default="x8",
        min_length=1,
        max_length=200,
        description="What was lost: x8 or 'batch at 8', 'serial at 8', a target's name.",
    )
    margin: float = Field(default=0.03, ge=0, le=0.9, description="Loss of BAD, as a fraction, from which on it is searched for.")
    retry: bool = Field(default=False, description="Build commits again that are known not to build.")
    measure: ServedValidation = Field(
        default_factory=ServedValidation, description=f"{_HOW} Left out: looks of {LOOKS}, {MINUTES:g} minutes a comparison."
    )

    @field_validator("target")
    @classmethod
    def _is_known(cls, value: str) -> str:
        parse_target(value)
        return value

    @property
    def asked(self) -> Asked:
        """The search itself."""
        return Asked(self.good, self.bad, self.target, self.margin, self.retry)

    def resolved(self, settings: UpSettings) -> ValidationParameters:
        """How suspects are measured, with the service's results folder."""
        defaults: dict[str, Any] = {"looks": LOOKS, "budget_minutes": MINUTES}
        left = {name: value for name, value in defaults.items() if name not in self.measure.model_fields_set}
        return self.measure.resolved(settings).model_copy(update=left)


class ServedComparison(_Form):
    """Two commits head to head."""

    model_config = ConfigDict(title="Compare")

    base: str = Field(pattern=REVISION, description="Commit, branch or tag that the other is held against.")
    head: str = Field(default="HEAD", pattern=REVISION, description="Commit, branch or tag that must not be slower.")
    legs: Literal["batch", "serial", "both"] = Field(
        default="batch", description="Legs to compare; one target each at each level."
    )
    margin: float = Field(default=0.03, ge=0, le=0.9, description="Loss that is let pass, as a fraction; beyond it is a FAIL.")
    measure: ServedValidation = Field(default_factory=ServedValidation, description=_HOW)

    @model_validator(mode="after")
    def _no_uncommitted_work(self) -> Self:
        if WORKTREE in (self.base, self.head):
            raise ValueError(f"{WORKTREE}: uncommitted changes are compared from the command line alone: name a commit")
        return self

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The legs as the plan names them."""
        return tuple(mode for mode in MODES if self.legs in (mode, "both"))
