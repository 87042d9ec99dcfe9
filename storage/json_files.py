"""JSON files of the results folder, whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.errors import StoreError


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises StoreError for anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(content, dict):
        raise StoreError(f"{path}: found {type(content).__name__}, expected a JSON object")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write through to the disk under another name, then rename. Raises StoreError where it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=1, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{path}: cannot be written: {error}") from error
