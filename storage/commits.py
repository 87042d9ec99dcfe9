"""What git knows of the commits that were measured: where each stands in topological order, and whether history still has it."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from duckdb import DuckDBPyConnection

from storage.database import Database, read
from storage.errors import StoreError
from storage.load_rows import insert_rows
from storage.rows import Row, timestamp
from storage.sql import transaction

COMMITS_FILE = "commits.json"  # in the results folder: what git said, for a rebuild without the repository

_FIELDS = ("%H", "%an", "%aI", "%cI", "%P", "%s")
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")  # of a hook we may run in


@dataclass(frozen=True)
class CommitReport:
    """What became of the measured commits."""

    placed: int  # have a position
    unreachable: list[str]  # history no longer leads to them
    unknown: list[str]  # this repository never had them
    shallow: bool  # a shallow clone: descriptions were filled in, positions left alone


def fill_commits(db_path: Path | str, repository: Path | str) -> CommitReport:
    """Describe every measured commit from a repository, place it in the topological order of all that branches, tags and the
    head reach, and mark what rewritten history no longer reaches. Points stay. A repository that has none of the commits
    changes nothing. Raises StoreError where git cannot read the repository.
    """
    repository = Path(repository)
    database = Database(db_path)
    with read(db_path) as connection:
        measured = _measured(connection)
    shallow = _git(repository, "rev-parse", "--is-shallow-repository").strip() == "true"
    described = _describe(repository, measured)
    if not described:  # another repository, or an empty one: it knows nothing of what others have said
        return CommitReport(0, [], sorted(measured), shallow)
    order = _order(repository, "--branches", "--tags", "--remotes", *_head(repository))
    branches = [] if shallow else _branch_rows(repository, measured)
    with database.write() as connection:
        with transaction(connection):
            if shallow:
                new = [{**row, "reachable": True, "position": None} for row in described.values()]
                insert_rows(connection, "commits", new, on_conflict="OR IGNORE")
            else:
                _write(connection, measured, described, order)
                connection.execute("DELETE FROM branch_positions")
                insert_rows(connection, "branch_positions", branches, on_conflict="OR REPLACE")
            unreachable = _names(connection, 'SELECT "commit" FROM commits WHERE NOT reachable ORDER BY 1')
            described_now = set(_names(connection, 'SELECT "commit" FROM commits'))
        _save(connection, database.path.parent / COMMITS_FILE)
    placed = 0 if shallow else len(measured & set(order))
    return CommitReport(placed, unreachable, sorted(measured - described_now), shallow)


def load_commits(connection: DuckDBPyConnection, path: Path) -> None:
    """Read commits.json back. Nothing happens where there is none. Raises StoreError for a file that is not what
    `fill_commits` wrote.
    """
    if not path.exists():
        return
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        commits, positions = content["commits"], content["branch_positions"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not a list of commits as paceline writes it: {error}") from error
    insert_rows(connection, "commits", commits, on_conflict="OR REPLACE")
    insert_rows(connection, "branch_positions", positions, on_conflict="OR REPLACE")


def _write(connection: DuckDBPyConnection, measured: set[str], described: dict[str, Row], order: dict[str, int]) -> None:
    for name, row in described.items():
        row |= {"reachable": name in order, "position": order.get(name)}
    gone = sorted(measured - set(described))
    connection.execute(
        'UPDATE commits SET reachable = false, position = NULL WHERE "commit" IN (SELECT unnest(?::VARCHAR[]))', [gone]
    )
    insert_rows(connection, "commits", described.values(), on_conflict="OR REPLACE")


def _branch_rows(repository: Path, measured: set[str]) -> list[Row]:
    rows: list[Row] = []
    for branch in _git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads").split():
        order = _order(repository, f"refs/heads/{branch}")
        rows += [{"branch": branch, "commit": name, "position": order[name]} for name in sorted(measured & set(order))]
    return rows


def _measured(connection: DuckDBPyConnection) -> set[str]:
    sql = """SELECT DISTINCT "commit" FROM (SELECT "commit" FROM records UNION ALL SELECT "commit" FROM builds)
        WHERE regexp_full_match("commit", '[0-9a-f]{40}')"""
    return set(_names(connection, sql))


def _describe(repository: Path, commits: set[str]) -> dict[str, Row]:
    """Rows for those of the commits that the repository has."""
    if not commits:
        return {}
    wanted = "".join(f"{name}\n" for name in sorted(commits))
    checked = _git(repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", given=wanted).splitlines()
    present = [line.split()[0] for line in checked if line.endswith(" commit")]
    if not present:
        return {}
    text = _git(
        repository,
        "log",
        "--no-walk=unsorted",
        "--stdin",
        f"--format={'%x1f'.join(_FIELDS)}%x1e",
        given="\n".join(present) + "\n",
    )
    rows = {}
    for entry in filter(None, (part.strip("\n") for part in text.split("\x1e"))):
        name, author, authored, committed, parents, subject = entry.split("\x1f")
        rows[name] = {
            "commit": name,
            "author": author,
            "author_date": timestamp(authored),
            "committed_at": timestamp(committed),
            "subject": subject,
            "parents": parents.split(),
        }
    return rows


def _order(repository: Path, *tips: str) -> dict[str, int]:
    """Commit -> place, oldest 1; a parent always before its children."""
    names = _git(repository, "rev-list", "--topo-order", "--reverse", *tips, "--").split()
    return {name: place for place, name in enumerate(names, 1)}


def _head(repository: Path) -> list[str]:
    """HEAD where it is a commit: not in a repository without commits."""
    try:
        return [_git(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()]
    except StoreError:
        return []


def _git(repository: Path, *arguments: str, given: str | None = None) -> str:
    command = ["env", *(option for name in _FOREIGN for option in ("-u", name)), "git", "-C", os.fspath(repository), *arguments]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise StoreError(f"{repository}: git cannot be run: {error}") from error
    if done.returncode != 0:
        raise StoreError(f"{repository}: git {arguments[0]} failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def _names(connection: DuckDBPyConnection, sql: str) -> list[str]:
    return [str(name) for (name,) in connection.execute(sql).fetchall()]


def _save(connection: DuckDBPyConnection, path: Path) -> None:
    sql = """SELECT * REPLACE (author_date::VARCHAR AS author_date, committed_at::VARCHAR AS committed_at)
        FROM commits ORDER BY ALL"""
    content = {}
    for table, query in (("commits", sql), ("branch_positions", "SELECT * FROM branch_positions ORDER BY ALL")):
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        content[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)
