"""A planted history of twelve commits: what a backfill and a bisection find in it, in what time, with how many measurements.

    .venv/bin/python tests/bench/bench_commits.py --folder /tmp/planted

Commit 5 does not build and commit 6 takes that back; from commit 8 on batch mode gives each rank one thread. The native module is
that of the current tree's build; commit 5 asks for another, and commit 3 changes a comment of native/, so that one is compiled
(--no-compile leaves that out).
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration/commits"))
from planted import Repository, builds_again, does_not_build, one_thread_in_batch, plant

from flows.build import build_engine
from flows.settings import HostSettings, load_host
from flows.source import find_repo

CULPRIT = "8 batch mode takes one thread a rank"


def comment_in_native(folder: Path) -> None:
    with (folder / "native/CMakeLists.txt").open("a") as file:
        file.write("# A comment, and so another state of native/.\n")


def plant_twelve(folder: Path, build: Path, host: HostSettings, compiles: bool) -> Repository:
    """base and eleven more."""
    repository = plant(folder, build, host)
    special = {
        3: ("3 changes a comment of native", comment_in_native if compiles else None),
        5: ("5 does not build", does_not_build),
        6: ("6 builds again", builds_again),
        8: (CULPRIT, one_thread_in_batch),
    }
    for number in range(2, 13):
        repository.commit(*special.get(number, (f"{number} changes a comment",)))
    return repository


def timed(title: str, command: list[str]) -> float:
    print(f"\n== {title}\n$ {' '.join(command)}", flush=True)
    began = time.monotonic()
    code = subprocess.run([sys.executable, "-P", "-m", "flows.cli", *command], check=False).returncode
    seconds = time.monotonic() - began
    print(f"exit code {code}, {seconds:.0f} s", flush=True)
    return seconds


def main() -> int:
    """Plant, backfill, bisect; 0 where both name the culprit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder for repository, cache and results")
    parser.add_argument("--checkpoint", default="synthetic:small@0")
    parser.add_argument("--level", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=3, help="of each commit of the backfill")
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--range", default="main", help="of the backfill")
    parser.add_argument("--no-compile", action="store_true", help="leave native/ alone")
    parser.add_argument("--build", type=Path, help="an existing build, in place of one of the current tree")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    folder.mkdir(parents=True)
    build = asked.build or build_engine(find_repo(None), load_host(), folder / "build.log")[0].folder
    repository = plant_twelve(
        folder / "repository", build, HostSettings(cache=folder / "cache", build=None), not asked.no_compile
    )
    culprit = repository.names[CULPRIT]
    common = ["--repo", str(repository.folder), "--cache", str(folder / "cache"), "--checkpoint", asked.checkpoint, "--tp", "1"]
    common += ["--new-tokens", str(asked.new_tokens), "--runs", "3", "--budget-minutes", "10"]
    plan = ["--levels", str(asked.level), "--pairs", str(asked.pairs), "--results", str(folder / "backfilled")]
    timed("backfill", ["backfill", asked.range, *common, *plan, "--run", "backfill"])
    looks = ["--target", f"x{asked.level}", "--looks", "3,6,12", "--results", str(folder / "searched")]
    timed("bisect", ["bisect", repository.names["base"], "main", *common, *looks, "--run", "search"])
    changes = json.loads((folder / "backfilled/backfill/backfill.json").read_text())["changes"]
    found = json.loads((folder / "searched/search/bisect.json").read_text())["first_bad"]
    by_backfill = any(change["bad"] == culprit and change["level"] == asked.level for change in changes)
    print(f"\nculprit {culprit[:10]}: backfill {'found' if by_backfill else 'missed'} it, bisect named {str(found)[:10]}")
    return 0 if by_backfill and found == culprit else 1


if __name__ == "__main__":
    sys.exit(main())
