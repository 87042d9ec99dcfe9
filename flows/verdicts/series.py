"""A series: one machine, one checkpoint, one workload. Nothing is compared across series, and equal binaries cannot differ."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from flows.verdicts.judge import Verdict


class SeriesError(ValueError):
    """Measurements of two series in one comparison. The message names the first part in which they differ."""


@dataclass(frozen=True)
class Series:
    """What must be equal for two nights to be comparable."""

    fingerprint: str  # of the machine: CPU or GPU model and count, driver, memory, compiler, flags
    checkpoint_digest: str
    workload: str

    @property
    def key(self) -> str:
        """Twelve hex digits that name the series in the store and the charts."""
        text = "\n".join((self.fingerprint, self.checkpoint_digest, self.workload))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def only_series(found: Iterable[Series]) -> Series:
    """The one series that all belong to. Raises SeriesError for none and for more than one."""
    distinct = list(dict.fromkeys(found))
    if not distinct:
        raise SeriesError("no measurement, so no series")
    first = distinct[0]
    for other in distinct[1:]:
        name = next(field.name for field in fields(Series) if getattr(first, field.name) != getattr(other, field.name))
        ours, theirs = getattr(first, name), getattr(other, name)
        raise SeriesError(
            f"two series: {name} is {ours!r} in {first.key} and {theirs!r} in {other.key}; no verdict across series"
        )
    return first


def same_binary(base: str, head: str) -> bool:
    """Whether two builds are one by their content hash. An unknown ("") hash equals nothing."""
    return bool(base) and base == head


def cannot_differ(verdict: Verdict) -> Verdict:
    """The verdict on a build against a build with the same binary hash: a FAIL is noise, and says so."""
    if verdict.status != "FAIL":
        return verdict.with_flag("both builds are one binary: what differs is noise.")
    reason = f"Both builds are one binary and cannot differ, so this is noise and belongs to the floor. It read: {verdict.reason}"
    return replace(verdict, status="INCONCLUSIVE", reason=reason)
