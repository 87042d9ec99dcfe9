"""What a run shows in the Prefect UI: its progress while it goes on; at the end tables, chart and links."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_progress_artifact, update_progress_artifact

from flows import summary
from flows.folders import RunFolder
from flows.progress import Reporter, duration, reporting_to
from storage.records import Record


class UiReporter(Reporter):
    """Moves the run's progress bar, between measurements only: nothing of ours runs beside one."""

    def __init__(self) -> None:
        super().__init__()
        self._artifact: UUID | None = None

    def started(self, label: str, attempt: int, expected_s: float) -> None:
        super().started(label, attempt, expected_s)
        self._show(f"{label} runs, about {duration(self.left_s)} left")

    def finished(self, label: str, record: Record, wall_s: float) -> None:
        super().finished(label, record, wall_s)
        self._show(f"{label} done")

    def close(self) -> None:
        """Say how far it came."""
        if self.total:
            self._show("all planned measurements are done" if self.done >= self.total else "the run is over")

    def _show(self, text: str) -> None:
        with self.lock:
            self._publish(text)

    def _publish(self, text: str) -> None:
        share = 100 * min(1.0, self.done / self.total) if self.total else 0.0
        described = f"{self.done} of {self.total} measurements; {text}"
        if self._artifact is None:
            made = create_progress_artifact(progress=share, key="progress", description=described)
            self._artifact = made if isinstance(made, UUID) else None
        else:
            update_progress_artifact(self._artifact, progress=share, description=described)


@contextmanager
def in_ui() -> Iterator[None]:
    """Report what runs inside in the Prefect UI."""
    with reporting_to(UiReporter()):
        yield


def publish(found: Mapping[str, Any], folder: RunFolder) -> None:
    """The run's summary as a markdown artifact, with the trend inside."""
    create_markdown_artifact(text_of(found, folder), key="validation", description=short(found["headline"]))


def text_of(found: Mapping[str, Any], folder: RunFolder, level: int = 1) -> str:
    """Markdown of a run: its tables under a heading of that level, what a reader must know, and the trend."""
    _, _, rest = summary.markdown(found).partition("\n")
    return f"{'#' * level} {short(found['headline'])}\n{rest}{chart(folder.root / 'charts' / 'trend.png')}"


def short(headline: str) -> str:
    """The first sentence; the reasons stand below the tables."""
    return headline.partition(". ")[0].rstrip(".")


def chart(path: Path) -> str:
    """Markdown of a PNG as a data: URI, so that it shows without a server; nothing where there is none."""
    if not path.is_file():
        return ""
    return f"\n![Trend of the ratios](data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')})\n"


def link(key: str, address: str | None, text: str) -> None:
    """A link artifact; nothing where no pages are served."""
    if address is not None:
        create_link_artifact(link=address, link_text=text, key=key, description=text)
