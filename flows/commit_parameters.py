"""What a backfill and a bisection are asked for; the command line, the forms and the nightly's queue fill these in."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from flows.parameters import ValidationParameters

# Names as git takes them; none begins with a dash, so that none is an option.
REVISION = r"^[A-Za-z0-9_@][A-Za-z0-9_@./^~{}+-]{0,199}$"
RANGE = r"^[A-Za-z0-9_@.][A-Za-z0-9_@./^~{}+-]{0,399}$"


class BackfillParameters(BaseModel):
    """A range of commits, and how each is measured."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Backfill")

    range: str = Field(
        pattern=RANGE, description="A..B: the commits that B has and A has not; B: all of B's history. Each by any name."
    )
    every: int = Field(default=1, ge=1, le=10_000, description="Measure every N-th commit of the range, and the last.")
    all: bool = Field(default=False, description="Measure commits that change nothing under test too.")
    again: bool = Field(default=False, description="Measure commits once more that have a point already.")
    retry: bool = Field(default=False, description="Build commits again that are known not to build.")
    measure: ValidationParameters = Field(default_factory=ValidationParameters, description="What is measured on each commit.")

    @property
    def folder(self) -> Path:
        """The results folder."""
        return Path(self.measure.results).absolute()
