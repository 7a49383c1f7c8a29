"""Statements as the parser gives them. Queries and expressions inside are sqlglot trees of the Flink dialect; names are tuples of parts as written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.sql.types import DataType

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Base of all statements; `text` is how it was written, `source` the whole text that it stands in, in which positions are counted."""

    text: str = ""
    source: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatement(Statement):
    """SELECT, VALUES, WITH, a set operation."""

    tree: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertStatement(Statement):
    """INSERT INTO | OVERWRITE table [PARTITION (...)] [(columns)] query."""

    table: Name
    query: QueryStatement
    columns: tuple[str, ...] | None = None
    overwrite: bool = False
    partition: dict[str, Any] = field(default_factory=dict)  # None: dynamic
    target: Any = field(default=None, compare=False, repr=False)  # the table's name as a tree
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSetBlock(Statement):
    """EXECUTE STATEMENT SET BEGIN ... END, or BEGIN STATEMENT SET; ... END."""

    inserts: tuple[InsertStatement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """A column of CREATE or ALTER TABLE. `kind`: physical (`type`), metadata (`type`, `metadata_key` if given, `virtual`), computed (`expression`, `expression_text`).

    `position` (ALTER): None, FIRST, or the column that it comes after.
    """

    name: str
    kind: str
    type: DataType | None = None
    metadata_key: str | None = None
    virtual: bool = False
    expression: Any = None
    expression_text: str | None = None
    comment: str | None = None
    primary_key: bool = False
    position: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkDefinition:
    """WATERMARK FOR column AS expression."""

    column: str
    expression: Any
    expression_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeClause:
    """LIKE table (INCLUDING | EXCLUDING | OVERWRITING what ...)."""

    table: Name
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableStatement(Statement):
    """CREATE [TEMPORARY] TABLE [IF NOT EXISTS], also with LIKE or AS query."""

    table: Name
    columns: tuple[ColumnDefinition, ...] = ()
    watermark: WatermarkDefinition | None = None
    primary_key: tuple[str, ...] | None = None
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    like: LikeClause | None = None
    query: QueryStatement | None = None
    temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTableStatement(Statement):
    """ALTER TABLE: `actions` are tuples that begin with what is done.

    ("RENAME TO", Name), ("SET", options), ("RESET", keys), ("ADD COLUMN", ColumnDefinition), ("MODIFY COLUMN", ColumnDefinition), ("DROP COLUMN", name), ("RENAME COLUMN", old, new),
    ("ADD WATERMARK" or "MODIFY WATERMARK", WatermarkDefinition), ("DROP WATERMARK",), ("ADD PRIMARY KEY" or "MODIFY PRIMARY KEY", names), ("DROP PRIMARY KEY",)
    """

    table: Name
    actions: tuple[tuple[Any, ...], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateViewStatement(Statement):
    """CREATE [TEMPORARY] VIEW name [(columns)] AS query."""

    view: Name
    query: QueryStatement
    columns: tuple[str, ...] | None = None
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterViewStatement(Statement):
    """ALTER VIEW: RENAME TO, or AS query."""

    view: Name
    new_name: Name | None = None
    query: QueryStatement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabaseStatement(Statement):
    """CREATE DATABASE."""

    database: Name
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabaseStatement(Statement):
    """ALTER DATABASE name SET (...)."""

    database: Name
    options: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCatalogStatement(Statement):
    """CREATE CATALOG name WITH (...)."""

    catalog: str
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunctionStatement(Statement):
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION name AS 'module.name' LANGUAGE PYTHON."""

    function: Name
    implementation: str
    language: str = "PYTHON"
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterFunctionStatement(Statement):
    """ALTER FUNCTION name AS 'module.name'."""

    function: Name
    implementation: str
    language: str = "PYTHON"
    temporary: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStatement(Statement):
    """DROP TABLE | VIEW | DATABASE | CATALOG | FUNCTION."""

    kind: str
    name: Name
    temporary: bool = False
    system: bool = False
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowStatement(Statement):
    """SHOW `what`: CATALOGS, DATABASES, TABLES, VIEWS, FUNCTIONS, USER FUNCTIONS, COLUMNS, PARTITIONS, MODULES, FULL MODULES, JOBS, CURRENT CATALOG, CURRENT DATABASE, CREATE TABLE, CREATE VIEW, CREATE CATALOG.

    `target`: FROM or IN a name, or what CREATE is shown of. `like` pattern, negated by `not_like`.
    """

    what: str
    target: Name | None = None
    like: str | None = None
    not_like: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStatement(Statement):
    """DESCRIBE table, or CATALOG, DATABASE, FUNCTION, JOB (`kind`)."""

    name: Name
    kind: str = "TABLE"
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UseStatement(Statement):
    """USE CATALOG c; USE [c.]d; USE MODULES a, b."""

    kind: str  # CATALOG, DATABASE, MODULES
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatement(Statement):
    """SET 'key' = 'value'; SET alone (key None)."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetStatement(Statement):
    """RESET ['key']."""

    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainStatement(Statement):
    """EXPLAIN [PLAN FOR | ESTIMATED_COST, CHANGELOG_MODE, JSON_EXECUTION_PLAN, PLAN_ADVICE] statement."""

    statement: Statement
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobControlStatement(Statement):
    """STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]."""

    job_id: str
    savepoint: bool = False
    drain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateStatement(Statement):
    """TRUNCATE TABLE."""

    table: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStatement(Statement):
    """DELETE FROM or UPDATE, which streams refuse."""

    table: Name
    kind: str = "DELETE"
