"""How long a measurement should take and how long it may: for the time left, the budget and the deadline."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from storage.records import Record, Spec

PATIENCE = 10.0  # an engine three times slower must finish, and fail on merit
LEAST_PATIENCE = 4.0  # whatever the longest time is
LEAST_DEADLINE_S = 60.0
_START_S = 3.0  # process, imports, mapping and packing the checkpoint: a guess until something was measured
_TOKEN_S = 0.02  # one decode step: likewise
_ROUNDS = ("latency", "throughput", "canary", "comparison")  # kinds that are rounds of one engine and nothing else


@dataclass
class Expectations:
    """Learns from the measurements of this run."""

    longest_s: float  # deadline while nothing is known
    _walls: dict[tuple[str, int], list[float]] = field(default_factory=dict)  # (mode, level) -> seconds of whole processes
    _others: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # (kind, mode) -> the same, of other kinds

    def observe(self, spec: Spec, wall_s: float) -> None:
        """Take in a measurement that succeeded."""
        if spec.kind not in _ROUNDS:
            self._others.setdefault((spec.kind, spec.mode), []).append(wall_s)
            return
        self._walls.setdefault((spec.mode, spec.level), []).append(wall_s)

    def recall(self, records: Iterable[Record]) -> None:
        """Take in what earlier measurements took; those that failed tell nothing."""
        for record in records:
            if record.status == "ok":
                self.observe(record.spec, busy_s(record, (record.finished_at - record.started_at).total_seconds()))

    def expected_s(self, spec: Spec) -> float:
        """Seconds of the whole process: as before at this mode and level, else scaled from what is known, else guessed."""
        if spec.kind not in _ROUNDS:
            others = self._others.get((spec.kind, spec.mode))
            return sum(others) / len(others) if others else _guess_s(spec)
        same = self._walls.get((spec.mode, spec.level))
        if same:
            return sum(same) / len(same)
        if not self._walls:
            return _START_S + _TOKEN_S * _steps(spec)
        # Scale from the nearest measured process by the steps it takes; a whole process grows no faster than that.
        (mode, level), walls = min(self._walls.items(), key=lambda item: (item[0][0] != spec.mode, abs(item[0][1] - spec.level)))
        other = spec.model_copy(update={"mode": mode, "level": level})
        known = sum(walls) / len(walls)
        work = max(known - _START_S, 0.1 * known)
        return known - work + work * _steps(spec) / _steps(other)

    def deadline_s(self, spec: Spec) -> float:
        """Seconds after which the process is ended."""
        if spec.kind not in _ROUNDS or not self._walls:
            return self.longest_s
        expected = self.expected_s(spec)
        return min(max(PATIENCE * expected, LEAST_DEADLINE_S), max(self.longest_s, LEAST_PATIENCE * expected))


def busy_s(record: Record, wall_s: float) -> float:
    """Seconds of a process's wall time in which it did not wait for its partner's turns."""
    return max(0.0, wall_s - record.values.get("turns_waited_s", 0.0))


def _guess_s(spec: Spec) -> float:
    """Of a kind that is not rounds alone: its engines, its steps, and the time that it is asked to last."""
    extra = spec.extra
    engines = len(extra.get("sequence", ())) or 2
    lasts = extra.get("requests", 0) / extra["rate_per_s"] if "rate_per_s" in extra else 10.0 if spec.kind == "idle" else 0.0
    return engines * (_START_S + _TOKEN_S * _steps(spec)) + lasts


def _steps(spec: Spec) -> int:
    """Steps of the whole process: serial legs take turns, batch legs go together."""
    turns = spec.level if spec.mode == "serial" else -(-spec.level // spec.slots)
    return turns * (spec.warmup + spec.runs) * (spec.new_tokens + 1)
