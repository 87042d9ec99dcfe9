"""`paceline sql`: once, from a file, from the standard input, and in conversation."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.errors import StoreError, StoreMissing
from storage.ingest import ingest
from storage.shell import converse, run


@pytest.fixture
def store(kit: Any, results: Any) -> Any:
    ingest(results.store, results.write(kit.make.make_run({1: 1.0, 2: 1.8}, pairs=1)))
    return results


def said(store: Any, sql: str, form: Any = "table") -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run(store.root, command=sql, format=form, stdout=out, stderr=err)
    return code, out.getvalue(), err.getvalue()


SQL = """SELECT level, mode, wall_s / 3 AS third, NULL AS gone, [1, 2] AS list
    FROM level_table ORDER BY level, mode = 'batch' LIMIT 1"""


def test_table(store: Any) -> None:
    code, out, err = said(store, SQL)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["level", "mode", "third", "gone", "list"]
    assert lines[2].split() == ["1", "serial", f"{store.query(SQL)[0][2]:.6g}", "[1,", "2]"]
    assert lines[3] == "(1 row)"


def test_markdown_and_csv(store: Any) -> None:
    third = store.query(SQL)[0][2]
    assert said(store, SQL, "md")[1].splitlines()[0] == "| level | mode | third | gone | list |"
    assert said(store, SQL, "csv")[1].splitlines()[1] == f'1,serial,{third},,"[1, 2]"'
    assert said(store, "SELECT 'a|b' AS x", "md")[1].splitlines()[2] == "| a\\|b |"


def test_json_is_strict(store: Any) -> None:
    sql = "SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b, 1.5 AS c, TIMESTAMP '2026-01-01' AS d, {'x': 1} AS e"
    code, out, _ = said(store, sql, "json")

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert code == 0
    assert json.loads(out, parse_constant=refuse) == [{"a": None, "b": None, "c": 1.5, "d": "2026-01-01T00:00:00", "e": {"x": 1}}]


def test_parquet_goes_through_a_pipe(store: Any, tmp_path: Path) -> None:
    program = "import sys; from storage.shell import run; sys.exit(run(sys.argv[1], command=sys.argv[2], format='parquet'))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(store.root), "SELECT * FROM level_table"], capture_output=True, check=True
    )
    file = tmp_path / "out.parquet"
    file.write_bytes(done.stdout)
    assert store.query(f"SELECT count(*), min(level) FROM read_parquet('{file}')") == [(4, 1)]
    with pytest.raises(StoreError, match="one SELECT"):
        said(store, "SELECT 1; SELECT 2", "parquet")


def test_it_cannot_write(store: Any, kit: Any) -> None:
    before = kit.contents(store.root)
    code, out, err = said(store, "DELETE FROM records")
    assert (code, out) == (2, "")
    assert "read-only" in err
    assert kit.contents(store.root) == before


def test_errors(store: Any, tmp_path: Path) -> None:
    code, out, err = said(store, "SELECT nothing FROM nowhere")
    assert (code, out) == (2, "")
    assert err.startswith("error: Catalog Error: Table with name nowhere does not exist!")
    assert ".views and .tables list what is there" in err
    for sql, says in {"SELEC 1": "Parser", "SELECT nothing FROM records": "Binder", "SELECT 'a'::INT": "Conversion"}.items():
        code, _, err = said(store, sql)
        assert (code, err.startswith(f"error: {says} Error")) == (2, True), err
    with pytest.raises(StoreError, match="xml"):
        said(store, "SELECT 1", "xml")
    with pytest.raises(StoreError, match=r"missing\.sql"):
        run(store.root, file=tmp_path / "missing.sql")
    with pytest.raises(StoreMissing):
        run(tmp_path / "empty", command="SELECT 1")


def test_file_and_standard_input(store: Any, tmp_path: Path) -> None:
    script = tmp_path / "two.sql"
    script.write_text("-- two statements\nSELECT 1 AS a;\nSELECT 2 AS b;\n")
    out = io.StringIO()
    assert run(store.root, file=script, format="csv", stdout=out) == 0
    assert out.getvalue() == "a\n1\nb\n2\n"
    out = io.StringIO()
    assert run(store.root, stdin=io.StringIO("SELECT 3 AS c"), format="csv", stdout=out) == 0
    assert out.getvalue() == "c\n3\n"


def test_conversation(store: Any, kit: Any) -> None:
    out, err = io.StringIO(), io.StringIO()

    def lines() -> Iterator[str]:
        yield "SELECT count(*) AS n"
        yield "FROM records;"
        ingest(store.store, store.write(kit.make.make_pair(8, 5.0, pair=7)))
        yield "SELECT count(*) AS n FROM records;"
        yield "SELECT wrong;"
        yield ".refresh"
        yield "SELECT count(*) AS n FROM records;"
        yield ".columns level_table"
        yield ".views"
        yield ".tables"
        yield ".help"
        yield ".nonsense"
        yield ".quit"

    source = lines()
    assert converse(store.root, input_line=lambda prompt: next(source), stdout=out, stderr=err, format="csv") == 0
    text = out.getvalue()
    assert [line for line in text.splitlines() if line in ("4", "6")] == ["4", "4", "6"]
    assert "wall of a round, seconds" in text
    assert "ratio_by_commit" in text
    assert "newer snapshot" in err.getvalue()
    assert "wrong" in err.getvalue()


def test_conversation_ends_with_the_input(store: Any) -> None:
    def ended(prompt: str) -> str:
        raise EOFError(prompt)

    assert converse(store.root, input_line=ended, stdout=io.StringIO(), stderr=io.StringIO()) == 0
