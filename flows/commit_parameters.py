"""What a backfill and a bisection are asked for; the command line, the forms and the nightly's queue fill these in."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from flows.parameters import ValidationParameters

# Names as git takes them; none begins with a dash, so that none is an option.
REVISION = r"^[A-Za-z0-9_@][A-Za-z0-9_@./^~{}+-]{0,199}$"
RANGE = r"^[A-Za-z0-9_@][A-Za-z0-9_@./^~{}+-]{0,399}$"


def _names_both_ends(text: str) -> str:
    """An end that is left out is more often a shell variable without a value than the wish for all of history."""
    start, dots, end = text.partition("..")
    right = "write A..B for the commits that B has and A has not, or B for all of B's history"
    if "..." in text or (dots and ".." in end):
        raise ValueError(f"range {text!r}: {right}")
    if not start or (dots and not end):
        which = "older" if dots and not start else "newer"
        raise ValueError(f"range {text!r}: names no {f'{which} end' if dots else 'commit'}; {right}")
    if not re.fullmatch(RANGE, text):
        raise ValueError(f"range {text!r}: holds what no name of a commit holds; {right}")
    return text


CommitRange = Annotated[str, AfterValidator(_names_both_ends)]


class BackfillParameters(BaseModel):
    """A range of commits, and how each is measured."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Backfill")

    range: CommitRange = Field(description="A..B: the commits that B has and A has not; B: all of B's history. Each by any name.")
    every: int = Field(default=1, ge=1, le=10_000, description="Measure every N-th commit of the range, and the last.")
    all: bool = Field(default=False, description="Measure commits that change nothing under test too.")
    again: bool = Field(default=False, description="Measure commits once more that have a point already.")
    retry: bool = Field(default=False, description="Build commits again that are known not to build.")
    measure: ValidationParameters = Field(default_factory=ValidationParameters, description="What is measured on each commit.")

    @property
    def folder(self) -> Path:
        """The results folder."""
        return Path(self.measure.results).absolute()
