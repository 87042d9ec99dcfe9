"""Where a run keeps its files: results/<run>/. The store and its snapshot lie beside the runs and serve them all."""

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from storage.records import TARGETS_FILE, Record, RecordError, load

_ATTEMPT = re.compile(r"\.attempt(\d+)\.json$")


class FolderError(OSError):
    """A results folder in which no run can be kept."""


def new_run_id() -> str:
    """UTC second and four random letters: sorts by time, unique enough for one results folder."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run below one results folder. Creates nothing but through `create`."""

    results: Path
    run_id: str

    @property
    def root(self) -> Path:
        return self.results / self.run_id

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def targets(self) -> Path:
        return self.root / TARGETS_FILE

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def requests(self) -> Path:
        return self.root / "requests"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run_log(self) -> Path:
        return self.root / "run.log"

    @property
    def summary_json(self) -> Path:
        return self.root / "summary.json"

    @property
    def summary_markdown(self) -> Path:
        return self.root / "summary.md"

    @property
    def store(self) -> Path:
        return self.results / "paceline.duckdb"

    @property
    def snapshot(self) -> Path:
        return self.results / "snapshot.duckdb"

    def create(self) -> None:
        """Make the folders. Raises FolderError where that is not allowed."""
        try:
            for folder in (self.records, self.requests, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderError(f"--results {self.results}: cannot be written: {error.strerror}; name another folder") from error

    def record_files(self) -> list[Path]:
        """Finished records, in name order. A file half written has another name."""
        return sorted(path for path in self.records.glob("*.json") if _ATTEMPT.search(path.name))

    def next_attempt(self, stem: str) -> int:
        """Number of the next attempt at a measurement, counted from 1."""
        taken = [int(found[1]) for path in self.requests.glob("*.json") if (found := _match(path, stem))]
        return max(taken, default=0) + 1

    def read_records(self) -> Iterator[Record]:
        """Every record that can be read; what cannot is named by the ingest, which is where files are judged."""
        for path in self.record_files():
            try:
                yield load(path)
            except RecordError:
                continue

    def measured(self) -> set[str]:
        """Names of the measurements that have a usable record."""
        return {record.measurement for record in self.read_records() if record.status == "ok"}


def unfinished_records(results: Path) -> list[Path]:
    """Records of runs that never came to their summary: killed, or still running elsewhere."""
    found: list[Path] = []
    for plan in sorted(results.glob("*/plan.json")):
        if not (plan.parent / "summary.json").exists():
            found += RunFolder(results, plan.parent.name).record_files()
    return found


def _match(path: Path, stem: str) -> re.Match[str] | None:
    found = _ATTEMPT.search(path.name)
    return found if found and path.name[: found.start()] == stem else None
