"""Migrations, views, comments; and what is refused."""

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import storage.migrate as migrations
from storage.database import Database, read
from storage.errors import StoreError, StoreMissing, StoreTooNew
from storage.ingest import ingest


def test_every_table_view_and_column_has_a_comment(results: Any) -> None:
    Database(results.store).publish_snapshot()
    sql = """SELECT table_name, column_name FROM duckdb_columns()
        WHERE database_name = 'store' AND NOT internal AND coalesce(comment, '') = ''"""
    assert results.query(sql) == []
    assert (
        results.query("SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' AND coalesce(comment, '') = ''") == []
    )
    assert results.query("SELECT view_name FROM duckdb_views() WHERE NOT internal AND coalesce(comment, '') = ''") == []


def test_view_files_describe_exactly_their_columns(results: Any) -> None:
    Database(results.store).publish_snapshot()
    for file in migrations.view_files():
        question, columns = migrations.view_comments(file.read_text())
        assert "?" in question, file.name
        found = results.query(f"SELECT column_name FROM duckdb_columns() WHERE table_name = '{file.stem}' ORDER BY column_index")
        assert [name for (name,) in found] == list(columns), file.name


def test_each_migration_is_recorded(results: Any) -> None:
    Database(results.store).publish_snapshot()
    files = migrations.migration_files()
    assert results.query("SELECT version, name FROM schema_migrations ORDER BY 1") == [(n, file.stem) for n, file in files]


def test_an_old_store_is_migrated_and_keeps_its_rows(
    results: Any, kit: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = kit.make.make_record()
    ingest(results.store, results.write(record))
    folder = tmp_path / "migrations"
    folder.mkdir()
    for _, file in migrations.migration_files():
        (folder / file.name).write_text(file.read_text())
    new = len(migrations.migration_files()) + 1
    (folder / f"{new:04d}_rooms.sql").write_text(
        "CREATE TABLE rooms ( -- rooms\n    room VARCHAR -- its name\n);\nALTER TABLE records ADD COLUMN room VARCHAR;\n"
    )
    monkeypatch.setattr(migrations, "MIGRATIONS", folder)
    with Database(results.store).write() as connection:
        assert migrations.schema_version(connection) == new
    assert results.query("SELECT record_id, room FROM records") == [(record.record_id, None)]
    assert results.query("SELECT comment FROM duckdb_columns() WHERE table_name = 'rooms'") == [("its name",)]
    assert results.query("SELECT count(*) FROM level_table") == [(1,)]


def test_a_newer_store_is_refused_with_what_to_install(results: Any) -> None:
    with Database(results.store).write() as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9000, '9000_future', '7.1.0')")
    for attempt in (lambda: Database(results.store).publish_snapshot(), lambda: read(results.root).__enter__()):
        with pytest.raises(StoreTooNew, match=r"schema version 9000.*install paceline 7\.1\.0"):
            attempt()


def test_a_failed_migration_leaves_nothing(results: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kit: Any) -> None:
    before = kit.contents(results.store)
    folder = tmp_path / "migrations"
    folder.mkdir()
    for _, file in migrations.migration_files():
        (folder / file.name).write_text(file.read_text())
    new = len(migrations.migration_files()) + 1
    (folder / f"{new:04d}_broken.sql").write_text("CREATE TABLE half ( -- half\n    a INTEGER -- a\n);\nSELECT * FROM nowhere;\n")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", folder)
        with pytest.raises(Exception, match="nowhere"):
            Database(results.store).publish_snapshot()
    assert kit.contents(results.store) == before


def test_views_are_renewed_when_their_texts_change(results: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "b_reads_a.sql").write_text("-- What?\n-- one: it\nCREATE VIEW b_reads_a AS SELECT one FROM z_first;\n")
    (folder / "z_first.sql").write_text("-- What first?\n-- one: it\nCREATE VIEW z_first AS SELECT 1 AS one;\n")
    monkeypatch.setattr(migrations, "VIEWS", folder)
    Database(results.store).publish_snapshot()
    assert results.query("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1") == [("b_reads_a",), ("z_first",)]
    assert results.query("FROM b_reads_a") == [(1,)]


def test_views_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE VIEW a AS SELECT * FROM b;")
    (tmp_path / "b.sql").write_text("CREATE VIEW b AS SELECT * FROM a;")
    with pytest.raises(StoreError, match="circle"):
        migrations.view_files(tmp_path)


def test_a_gap_in_the_numbers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0001_a.sql").touch()
    (tmp_path / "0003_c.sql").touch()
    monkeypatch.setattr(migrations, "MIGRATIONS", tmp_path)
    with pytest.raises(StoreError, match="without gaps"):
        migrations.migration_files()


def test_the_snapshot_has_the_format_of_duckdb_1_2(results: Any) -> None:
    """The header's version number is 65 for v1.2 files; later formats have higher ones, which older clients refuse."""
    Database(results.store).publish_snapshot()
    with read(results.root) as connection:
        tags = connection.execute("SELECT tags FROM duckdb_databases() WHERE database_name = 'store'").fetchone()
    assert tags == ({"storage_version": "v1.2.0+"},)
    for file in (results.snapshot, results.store):
        header = file.read_bytes()[:20]
        assert header[8:12] == b"DUCK"
        assert int.from_bytes(header[12:20], "little") == 65


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="no results store there"), read(tmp_path):
        pass


def test_a_file_that_is_no_database(results: Any) -> None:
    results.store.write_bytes(b"not a database at all" * 1000)
    with pytest.raises(StoreError, match="paceline rebuild"):
        Database(results.store).publish_snapshot()
    with pytest.raises(StoreError, match="paceline rebuild"), read(results.root):
        pass


def test_a_name_that_is_no_table_is_no_variable_of_ours(results: Any) -> None:
    frame = pd.DataFrame({"a": [1]})
    Database(results.store).publish_snapshot()
    with read(results.root) as connection, pytest.raises(duckdb.CatalogException, match="frame"):
        connection.execute("FROM frame")
    assert len(frame) == 1
