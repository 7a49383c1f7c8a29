"""Connectors and formats of other packages: found by entry points, loaded when a statement refers to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.sql.table_options import table_options
from penstock.errors import ConfigurationError
from penstock.sql.connector.catalogs import CATALOGS
from penstock.sql.connector.discovery import Factories
from penstock.sql.connector.formats import FORMATS, file_format_names, message_format_names
from penstock.sql.connector.providers import TableFactory
from penstock.sql.connector.registry import CONNECTORS
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster

ACME = '''
from penstock.catalogs.in_memory import GenericInMemoryCatalog
from penstock.catalogs.tables import PhysicalColumn, ResolvedTable, TablePath
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.types import Row
from penstock.connectors.base.collection import CollectionSource
from penstock.sql.connector.catalogs import CatalogFactory
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.formats import MessageFormatFactory, message_format, message_format_names
from penstock.sql.connector.options import checked, flag, text
from penstock.sql.connector.providers import ScanProvider, TableFactory
from penstock.table import DataTypes


class Words(TableFactory):
    """Words of an option."""

    identifier = "acme-words"
    options = (
        text("words", "The words.", required=True),
        text("format", "Format of a word.", required=True, suggestions=message_format_names),
    )

    def source(self, context):
        return WordTable(context)


class WordTable:
    def __init__(self, context):
        name, given = str(context.table.path), context.options
        form = given["format"]
        options = checked(given, Words.options, name, free=(f"{form}.",))
        columns = {each.name: each.type for each in context.table.columns if isinstance(each, PhysicalColumn)}
        reader = message_format(form, given, [f"{form}."], columns, name).reader()
        self.rows = [reader.deserialize(word.encode()) for word in options["words"].split()]
        self.columns = columns

    def changelog_mode(self):
        return ChangelogMode.insert_only()

    def bounded(self):
        return True

    def scan(self):
        return ScanProvider(CollectionSource(self.rows), tuple(self.columns), tuple(self.columns.values()))


class Reversed(MessageFormatFactory):
    """A text, backwards."""

    identifier = "acme-reversed"
    options = (flag("loud", "Upper case."),)

    def deserializer(self, context):
        return Backwards(context.options["loud"])

    def serializer(self, context):
        return Forwards()


class Dictionary(CatalogFactory):
    """A catalog with one table."""

    identifier = "acme-dictionary"

    def create(self, name, options):
        made = GenericInMemoryCatalog(name, "words")
        given = {"connector": "acme-words", "format": "raw", "words": options["words"]}
        path = TablePath(name, "words", "entries")
        made.put_table(path, ResolvedTable(path, (PhysicalColumn("word", DataTypes.STRING()),), given))
        return made


class Backwards(DeserializationSchema):
    def __init__(self, loud):
        self.loud = loud

    def deserialize(self, message):
        text = message.decode()[::-1]
        return Row(text.upper() if self.loud else text)


class Forwards(SerializationSchema):
    def serialize(self, value):
        return value[0][::-1].encode()
'''


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connectors and formats of a test are not those of others."""
    for factories in (CONNECTORS, FORMATS, CATALOGS):
        monkeypatch.setattr(factories, "_loaded", {})


def install(folder: Path, name: str, groups: dict[str, dict[str, str]], source: str = "") -> None:
    """Put a package into a folder, with the metadata that an installer writes."""
    if source:
        (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{each} = {value}\n" for each, value in members.items())
            for group, members in groups.items()
        )
    )


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package, with a connector and a format."""
    groups = {
        "penstock.connectors": {"acme-words": "acme:Words"},
        "penstock.formats": {"acme-reversed": "acme:Reversed"},
        "penstock.catalogs": {"acme-dictionary": "acme:Dictionary"},
    }
    install(tmp_path, "acme", groups, ACME)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme", raising=False)


WORDS = "CREATE TABLE t (word STRING) WITH ('connector' = 'acme-words', 'words' = 'olleh dlrow', 'format' = '{}'{})"


def environment(statement: str) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(statement)
    return tables


@pytest.mark.usefixtures("acme")
def test_sql_uses_the_connector_and_the_format_of_another_package() -> None:
    tables = environment(WORDS.format("acme-reversed", ", 'acme-reversed.loud' = 'true'"))
    with MiniCluster(), tables.execute_sql("SELECT word FROM t").collect() as rows:
        assert sorted(row[0] for row in rows) == ["HELLO", "WORLD"]


@pytest.mark.usefixtures("acme")
def test_a_connector_of_another_package_has_penstocks_formats() -> None:
    tables = environment(WORDS.format("raw", ""))
    with MiniCluster(), tables.execute_sql("SELECT word FROM t").collect() as rows:
        assert sorted(row[0] for row in rows) == ["dlrow", "olleh"]


@pytest.mark.usefixtures("acme")
def test_a_connector_of_penstock_has_the_formats_of_another_package() -> None:
    given = "'topic' = 't', 'properties.bootstrap.servers' = 'x:1', 'format' = 'acme-reversed'"
    tables = environment(f"CREATE TABLE t (word STRING) WITH ('connector' = 'kafka', {given})")
    assert "t" in tables.explain_sql("SELECT word FROM t")


@pytest.mark.usefixtures("acme")
def test_options_of_another_package_are_checked_and_completed() -> None:
    with pytest.raises(ConfigurationError, match="unknown option 'lout'") as refused:
        environment(WORDS.format("acme-reversed", ", 'acme-reversed.lout' = 'true'")).explain_sql(
            "SELECT * FROM t"
        )
    assert refused.value.hint == "did you mean 'loud'?"
    start = "CREATE TABLE t (w STRING) WITH ("
    assert "acme-words" in (table_options(f"{start}'connector' = '") or ("", []))[1]
    found = table_options(f"{start}'connector' = 'acme-words', 'w")
    assert found is not None
    assert {"connector", "format", "words"} <= set(found[1])
    formats = table_options(f"{start}'connector' = 'acme-words', 'format' = 'acme")
    assert formats is not None
    assert "acme-reversed" in formats[1]


@pytest.mark.usefixtures("acme")
def test_sql_uses_the_catalog_of_another_package() -> None:
    given = "'type' = 'acme-dictionary', 'words' = 'a b'"
    tables = environment(f"CREATE CATALOG c WITH ({given})")
    tables.execute_sql("USE CATALOG c")
    with MiniCluster(), tables.execute_sql("SELECT word FROM entries").collect() as rows:
        assert sorted(row[0] for row in rows) == ["a", "b"]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="unknown connector 'kafak'") as refused:
        CONNECTORS.find("kafak")
    assert refused.value.hint == "did you mean 'kafka'?"


def test_a_name_that_two_packages_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        install(tmp_path, name, {"penstock.connectors": {"twice": f"{name}:Factory"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match="in several installed packages") as refused:
        CONNECTORS.find("twice")
    assert refused.value.detail == "first (first:Factory), second (second:Factory)"


@pytest.mark.parametrize("value", ["broken:Factory", "broken.part:Factory", "json:Factory"])
def test_a_package_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    source = "import a_library_that_is_not_installed\n"
    install(tmp_path, "broken", {"penstock.connectors": {"broken": value}}, source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match="connector 'broken' of package 'broken'"):
        CONNECTORS.find("broken")


def test_a_format_that_cannot_be_loaded_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken", {"penstock.formats": {"broken": "broken:Factory"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "broken" in FORMATS.names()
    assert {"csv", "json", "raw"} <= set(message_format_names())
    assert {"csv", "debezium-json", "parquet"} <= set(file_format_names())


def test_options_of_a_format_are_completed_with_its_prefix() -> None:
    start = "CREATE TABLE t (w STRING) WITH ('connector' = "
    files = table_options(f"{start}'filesystem', 'format' = 'csv', 'csv")
    assert files is not None
    assert {"csv.field-delimiter", "path", "scan.watermark.idle-timeout"} <= set(files[1])
    values = table_options(f"{start}'filesystem', 'format' = 'json', 'json.map-null-key.mode' = '")
    assert values == ("", ["fail", "drop", "literal"])
    unknown = table_options(f"{start}'filesystem', 'format' = 'parket', 'p")
    assert unknown is not None
    assert "path" in unknown[1]


def test_a_source_tree_that_is_not_installed_gets_a_hint() -> None:
    with pytest.raises(ConfigurationError, match="unknown missing_kind 'kafka'") as refused:
        Factories[TableFactory]("missing_kind").find("kafka")
    assert refused.value.hint is not None
    assert "pip install" in refused.value.hint
    assert refused.value.detail == "available missing_kinds: none"


@pytest.mark.parametrize(
    "module", ["penstock.table", "penstock.datastream", "penstock.runtime.task"]
)
def test_no_connector_is_loaded_before_it_is_used(module: str) -> None:
    code = f"""
import sys
import {module}
systems = [name for name in sys.modules if name.startswith("penstock.connectors.") and ".base" not in name]
print(*systems, *(name for name in sys.modules if name.startswith("penstock.formats")))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
