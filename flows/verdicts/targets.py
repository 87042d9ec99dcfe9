"""Targets are data: a `targets.toml` says metric, level, direction, bound and unit, and nothing of it is guessed."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from flows.verdicts.metrics import RATIO_UNIT, Direction, Leg, Metric, find_metric, known_metrics

_FIELDS = {"name", "metric", "level", "direction", "bound", "unit", "leg"}
_RELATIVE = re.compile(r"baseline(?:\s*(?P<sign>[+-])\s*(?P<percent>\d+(?:\.\d+)?)\s*%)?")


class TargetError(ValueError):
    """A target that cannot be judged. The message names the file, the field, the value and what would be right."""


@dataclass(frozen=True)
class Target:
    """One bound on one metric at one level.

    bound is in `unit`; where `relative`, it is a factor on the series' baseline instead (0.97 for `baseline - 3 %`).
    leg says whose value is judged: the ratio batch / serial, or one leg's own value. reference, where there is one, is the
    value that a verdict is flagged for lying measurably short of, even within the bound (1.0 in a comparison of two builds).
    """

    name: str
    metric: str
    level: int
    direction: Direction
    bound: float
    unit: str
    relative: bool = False
    leg: Leg = "ratio"
    reference: float | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def scale(self) -> float:
        """What a ratio of the legs is multiplied by: 1, or 1 / level for a scaling efficiency."""
        return 1 / self.level if self.metric == "scaling_efficiency" else 1.0

    def absolute_bound(self, baseline: float | None) -> float | None:
        """The bound in `unit`; None for a relative bound without a baseline."""
        if not self.relative:
            return self.bound
        return None if baseline is None else baseline * self.bound

    def meets(self, value: float, bound: float) -> bool:
        """Whether a value, in `unit`, is on the good side of a bound (or on it)."""
        return value >= bound if self.direction == ">=" else value <= bound

    def describe(self) -> str:
        """For a table: `speedup_vs_serial@8 >= 4.5x`."""
        leg = "" if self.leg == _metric(self).leg else f" ({self.leg})"
        return f"{self.metric}@{self.level}{leg} {self.direction} {self.describe_bound()}"

    def describe_bound(self) -> str:
        if not self.relative:
            return quantity(self.bound, self.unit)
        percent = (self.bound - 1) * 100
        return "the baseline" if abs(percent) < 1e-9 else f"the baseline {'+' if percent > 0 else '-'} {abs(percent):.3g} %"


def quantity(value: float, unit: str) -> str:
    """A figure with its unit, as tables and reasons print it."""
    return f"{value:.4g}{unit}" if unit == RATIO_UNIT else f"{value:.4g} {unit}".removesuffix(" fraction")


def default_targets() -> tuple[Target, ...]:
    """The predecessor's four."""
    return parse_targets(_default_text(), "default_targets.toml")


def comparison_targets(levels: Sequence[int], modes: Sequence[Leg] = ("batch",), margin: float = 0.03) -> tuple[Target, ...]:
    """Targets of two builds head to head, 'no worse than the base by more than `margin`': one for each leg at each level.

    In their PairSamples `serial` is the base's value and `batch` the head's: seconds at level 1, requests a second above.
    """
    if not 0 <= margin < 1:
        raise ValueError(f"margin {margin!r} must lie in [0, 1): 0.03 is 3 %")
    return tuple(
        Target(f"{mode} at {level}", "e2el_s", level, "<=", 1 + margin, RATIO_UNIT, reference=1.0)
        if level == 1
        else Target(f"{mode} at {level}", "request_throughput", level, ">=", 1 - margin, RATIO_UNIT, reference=1.0)
        for level in levels
        for mode in modes
    )


def load_targets(path: Path | None = None) -> tuple[Target, ...]:
    """Read a targets file, or the default. Raises TargetError."""
    return default_targets() if path is None else parse_targets(_text(path), str(path))


def keep_targets(path: Path | None, copy: Path) -> None:
    """Write down, as they stand, the targets that a run is judged by, now and after a rebuild; a run that is taken up without
    a file keeps those it has. Raises TargetError.
    """
    if path is None and copy.exists():
        return
    text = _default_text() if path is None else _text(path)
    parse_targets(text, str(path))
    if path is None or path.resolve() != copy.resolve():
        copy.write_text(text, encoding="utf-8")


def _default_text() -> str:
    return resources.files("flows.verdicts").joinpath("default_targets.toml").read_text(encoding="utf-8")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"{path}: not readable as text: {error}") from error


def parse_targets(text: str, source: str) -> tuple[Target, ...]:
    """Targets of a TOML text; `source` is the file's name for messages. Raises TargetError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{source}: not valid TOML: {error}") from error
    if unknown := sorted(set(document) - {"target"}):
        raise TargetError(f"{source}: field {unknown[0]!r}: only [[target]] tables stand at the top level")
    tables = document.get("target")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise TargetError(f"{source}: field 'target': found {tables!r}; write at least one [[target]] table")
    targets = tuple(_from_table(table, f"{source}: target {number}") for number, table in enumerate(tables, start=1))
    seen: dict[str, int] = {}
    for number, target in enumerate(targets, start=1):
        if target.name in seen:
            first = seen[target.name]
            raise TargetError(
                f"{source}: target {number}: field 'name': {target.name!r} is also target {first}'s; names must differ"
            )
        seen[target.name] = number
    return targets


def _from_table(table: Mapping[str, Any], where: str) -> Target:
    if unknown := sorted(set(table) - _FIELDS):
        raise TargetError(f"{where}: field {unknown[0]!r} is unknown; the fields are {', '.join(sorted(_FIELDS))}")
    name = _take(table, "name", str, where)
    where = f"{where} ({name!r})"
    metric_name = _take(table, "metric", str, where)
    metric = find_metric(metric_name)
    if metric is None:
        raise TargetError(f"{where}: field 'metric': {metric_name!r} is no metric of the store; known are {known_metrics()}")
    bound, relative = _bound(table, where)
    try:
        return Target(
            name=name,
            metric=metric_name,
            level=_take(table, "level", int, where),
            direction=_take(table, "direction", str, where),
            bound=bound,
            unit=_take(table, "unit", str, where),
            relative=relative,
            leg=table.get("leg", metric.leg),
        )
    except TargetError as error:
        raise error if str(error).startswith(where) else TargetError(f"{where}: {error}") from error


def _take(table: Mapping[str, Any], field: str, kind: type, where: str) -> Any:
    if field not in table:
        raise TargetError(f"{where}: field {field!r} is missing")
    value = table[field]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TargetError(f"{where}: field {field!r}: found {value!r}, expected {'a whole number' if kind is int else 'a text'}")
    return value


def _bound(table: Mapping[str, Any], where: str) -> tuple[float, bool]:
    """The bound as a number in the unit, or as a factor on the baseline."""
    value = table.get("bound")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), False
    match = _RELATIVE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise TargetError(f"{where}: field 'bound': found {value!r}; write a number in the unit, or 'baseline - 3 %'")
    percent = float(match["percent"] or 0)
    return 1 + (-percent if match["sign"] == "-" else percent) / 100, True


def _metric(target: Target) -> Metric:
    metric = find_metric(target.metric)
    if metric is None:
        raise TargetError(f"field 'metric': {target.metric!r} is no metric of the store; known are {known_metrics()}")
    return metric


def _check(target: Target) -> None:
    """Refuse what could not be judged, in the order of the fields."""
    metric = _metric(target)
    if not target.name.strip():
        raise TargetError(f"field 'name': found {target.name!r}, expected a text that names the target")
    if target.level < 1 or not metric.exists_at(target.level):
        low, high = metric.levels
        levels = f"{low} only" if low == high else f"{low} and above"
        raise TargetError(f"field 'level': found {target.level!r}; {target.metric} exists at level {levels}")
    if target.direction not in (">=", "<="):
        raise TargetError(f"field 'direction': found {target.direction!r}, expected '>=' or '<='")
    if target.direction != metric.better:
        sense = "larger" if metric.better == ">=" else "smaller"
        raise TargetError(f"field 'direction': found {target.direction!r}; {target.metric} is better {sense}: {metric.better!r}")
    if not (math.isfinite(target.bound) and target.bound > 0):
        raise TargetError(f"field 'bound': found {target.bound!r}; a bound is finite and above 0")
    if target.leg not in ("ratio", "batch", "serial"):
        raise TargetError(f"field 'leg': found {target.leg!r}, expected 'ratio', 'batch' or 'serial'")
    if metric.leg == "ratio" and target.leg != "ratio":
        raise TargetError(f"field 'leg': found {target.leg!r}; {target.metric} is a ratio of both legs: 'ratio'")
    unit = RATIO_UNIT if target.leg == "ratio" and metric.leg != "ratio" else metric.unit
    if target.unit != unit:
        raise TargetError(f"field 'unit': found {target.unit!r}; {target.metric} ({target.leg}) is in {unit!r}")
