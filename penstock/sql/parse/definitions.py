"""The grammar of CREATE, ALTER and DROP."""

from __future__ import annotations

from typing import Any

from penstock.sql.parse.columns import ColumnParser
from penstock.sql.parse.queries import QueryParser
from penstock.sql.parse.statements import (
    AlterDatabaseStatement,
    AlterFunctionStatement,
    AlterTableStatement,
    AlterViewStatement,
    CreateCatalogStatement,
    CreateDatabaseStatement,
    CreateFunctionStatement,
    CreateTableStatement,
    CreateViewStatement,
    DropStatement,
    Statement,
)
from penstock.sql.parse.stream import TokenStream

# Objects of Flink that are not supported, with an alternative.
_NOT_CREATED = {
    "MATERIALIZED": (
        "materialized tables are not supported",
        "INSERT INTO a table with a primary key: the job keeps it up to date",
    ),
    "MODEL": ("models are not supported", "call models from Python functions"),
}


class DefinitionParser:
    """Reads statements that define things."""

    def __init__(self, tokens: TokenStream, queries: QueryParser, columns: ColumnParser) -> None:
        self._tokens = tokens
        self._queries = queries
        self._columns = columns

    # --- CREATE -------------------------------------------------------------------------------

    def create(self) -> Statement:
        """Take CREATE ..., of which CREATE is taken."""
        replace = self._tokens.accept("OR", "REPLACE")
        temporary = self._tokens.accept("TEMPORARY")
        system = temporary and self._tokens.accept("SYSTEM")
        kinds = ("FUNCTION",) if system else ("TABLE", "VIEW", "FUNCTION")
        if not temporary:
            kinds = (*kinds, "DATABASE", "CATALOG")
        if self._tokens.current.upper in _NOT_CREATED:
            raise self._tokens.error_at(
                self._tokens.current, *_NOT_CREATED[self._tokens.current.upper]
            )
        kind = self._tokens.expect_any(*kinds)
        if replace and kind != "TABLE":
            raise self._tokens.error_at(
                self._tokens.previous, f"CREATE OR REPLACE {kind} is not supported"
            )
        exists = self._tokens.accept("IF", "NOT", "EXISTS")
        if kind == "TABLE":
            return self._create_table(temporary, exists, replace)
        if kind == "VIEW":
            return self._create_view(temporary, exists)
        if kind == "FUNCTION":
            return self._create_function(temporary, system, exists)
        if kind == "DATABASE":
            return self._create_database(exists)
        return self._create_catalog(exists)

    def _create_table(self, temporary: bool, exists: bool, replace: bool) -> CreateTableStatement:
        table = self._tokens.path("the name of a table")
        parts: dict[str, Any] = (
            self._columns.table_elements() if self._tokens.current.upper == "(" else {}
        )
        parts["comment"] = self._tokens.string() if self._tokens.accept("COMMENT") else None
        if self._tokens.looking_at("DISTRIBUTED"):
            raise self._tokens.error_at(self._tokens.current, "DISTRIBUTED BY is not supported")
        if self._tokens.accept("PARTITIONED", "BY"):
            parts["partition_keys"] = tuple(self._tokens.in_parentheses(self._names))
        if self._tokens.accept("WITH"):
            parts["options"] = self._columns.options()
        if self._tokens.accept("LIKE"):
            parts["like"] = self._columns.like_clause()
        elif self._tokens.accept("AS"):
            parts["query"] = self._queries.statement()
        columns = self._column_names_of_query(parts)
        if columns and parts.get("query") is None:
            raise self._tokens.error_at(
                self._tokens.at(0), "columns without types need AS and a query"
            )
        return CreateTableStatement(
            table=table, temporary=temporary, if_not_exists=exists, or_replace=replace, **parts
        )

    def _column_names_of_query(self, parts: dict[str, Any]) -> bool:
        """Return whether some columns are named without a type: CREATE TABLE t (a, b) AS SELECT."""
        return any(
            column.kind == "physical" and column.type is None for column in parts.get("columns", ())
        )

    def _names(self) -> list[str]:
        return self._tokens.separated(lambda: str(self._tokens.any_identifier("a column").this))

    def _create_view(self, temporary: bool, exists: bool) -> CreateViewStatement:
        view = self._tokens.path("the name of a view")
        columns = None
        if self._tokens.current.upper == "(":
            columns = tuple(self._tokens.in_parentheses(self._names))
        comment = self._tokens.string() if self._tokens.accept("COMMENT") else None
        self._tokens.expect("AS")
        return CreateViewStatement(
            view=view,
            query=self._queries.statement(),
            columns=columns,
            comment=comment,
            temporary=temporary,
            if_not_exists=exists,
        )

    def _create_function(
        self, temporary: bool, system: bool, exists: bool
    ) -> CreateFunctionStatement:
        function = self._tokens.path("the name of a function")
        self._tokens.expect("AS")
        implementation, language = self._implementation()
        return CreateFunctionStatement(
            function=function,
            implementation=implementation,
            language=language,
            temporary=temporary,
            system=system,
            if_not_exists=exists,
        )

    def _implementation(self) -> tuple[str, str]:
        implementation = self._tokens.string("the name of a function or class in quotes")
        language = "JAVA"
        if self._tokens.accept("LANGUAGE"):
            language = self._tokens.expect_any("PYTHON", "JAVA", "SCALA")
        if language != "PYTHON":
            raise self._tokens.error_at(
                self._tokens.previous,
                f"{language.title()} functions are not supported",
                "use a Python function: AS 'module.name' LANGUAGE PYTHON",
            )
        if self._tokens.looking_at("USING"):
            raise self._tokens.error_at(
                self._tokens.current, "USING is not supported for Python functions"
            )
        return implementation, language

    def _create_database(self, exists: bool) -> CreateDatabaseStatement:
        database = self._tokens.path("the name of a database")
        comment = self._tokens.string() if self._tokens.accept("COMMENT") else None
        options = self._columns.options() if self._tokens.accept("WITH") else {}
        return CreateDatabaseStatement(
            database=database, comment=comment, options=options, if_not_exists=exists
        )

    def _create_catalog(self, exists: bool) -> CreateCatalogStatement:
        catalog = self._tokens.name("the name of a catalog")
        comment = self._tokens.string() if self._tokens.accept("COMMENT") else None
        options = self._columns.options() if self._tokens.accept("WITH") else {}
        return CreateCatalogStatement(
            catalog=catalog, comment=comment, options=options, if_not_exists=exists
        )

    # --- DROP ---------------------------------------------------------------------------------

    def drop(self) -> DropStatement:
        """Take DROP ..., of which DROP is taken."""
        temporary = self._tokens.accept("TEMPORARY")
        system = temporary and self._tokens.accept("SYSTEM")
        kinds = ("FUNCTION",) if system else ("TABLE", "VIEW", "FUNCTION")
        if not temporary:
            kinds = (*kinds, "DATABASE", "CATALOG")
        kind = self._tokens.expect_any(*kinds)
        exists = self._tokens.accept("IF", "EXISTS")
        name = self._tokens.path(f"the name of a {kind.lower()}")
        cascade = kind == "DATABASE" and self._tokens.accept_any("RESTRICT", "CASCADE") == "CASCADE"
        return DropStatement(
            kind=kind,
            name=name,
            temporary=temporary,
            system=system,
            if_exists=exists,
            cascade=cascade,
        )

    # --- ALTER --------------------------------------------------------------------------------

    def alter(self) -> Statement:
        """Take ALTER ..., of which ALTER is taken."""
        temporary = self._tokens.accept("TEMPORARY")
        if temporary:
            self._tokens.accept("SYSTEM")
            self._tokens.expect("FUNCTION")
            return self._alter_function(True)
        kind = self._tokens.expect_any("TABLE", "VIEW", "DATABASE", "FUNCTION", "CATALOG")
        if kind == "TABLE":
            return self._alter_table()
        if kind == "VIEW":
            return self._alter_view()
        if kind == "DATABASE":
            database = self._tokens.path("the name of a database")
            self._tokens.expect("SET")
            return AlterDatabaseStatement(database=database, options=self._columns.options())
        if kind == "FUNCTION":
            return self._alter_function(False)
        raise self._tokens.error_at(self._tokens.previous, "ALTER CATALOG is not supported")

    def _alter_view(self) -> AlterViewStatement:
        view = self._tokens.path("the name of a view")
        if self._tokens.accept("RENAME", "TO"):
            return AlterViewStatement(view=view, new_name=self._tokens.path("the name of a view"))
        self._tokens.expect("AS")
        return AlterViewStatement(view=view, query=self._queries.statement())

    def _alter_function(self, temporary: bool) -> AlterFunctionStatement:
        exists = self._tokens.accept("IF", "EXISTS")
        function = self._tokens.path("the name of a function")
        self._tokens.expect("AS")
        implementation, language = self._implementation()
        return AlterFunctionStatement(
            function=function,
            implementation=implementation,
            language=language,
            temporary=temporary,
            if_exists=exists,
        )

    def _alter_table(self) -> AlterTableStatement:
        exists = self._tokens.accept("IF", "EXISTS")
        table = self._tokens.path("the name of a table")
        word = self._tokens.expect_any("RENAME", "SET", "RESET", "ADD", "MODIFY", "DROP")
        actions: list[tuple[Any, ...]]
        if word == "RENAME":
            actions = [self._rename()]
        elif word == "SET":
            actions = [("SET", self._columns.options())]
        elif word == "RESET":
            actions = [("RESET", tuple(self._tokens.in_parentheses(self._strings)))]
        elif word == "DROP":
            actions = self._drop_actions()
        else:
            actions = self._columns.schema_changes(word)
        return AlterTableStatement(table=table, actions=tuple(actions), if_exists=exists)

    def _strings(self) -> list[str]:
        return self._tokens.separated(self._tokens.string)

    def _rename(self) -> tuple[Any, ...]:
        if self._tokens.accept("TO"):
            return ("RENAME TO", self._tokens.path("the name of a table"))
        old = self._tokens.name("a column")
        self._tokens.expect("TO")
        return ("RENAME COLUMN", old, self._tokens.name("a column"))

    def _drop_actions(self) -> list[tuple[Any, ...]]:
        if self._tokens.accept("PRIMARY", "KEY"):
            return [("DROP PRIMARY KEY",)]
        if self._tokens.accept("WATERMARK"):
            return [("DROP WATERMARK",)]
        if self._tokens.accept("CONSTRAINT"):
            self._tokens.name("a constraint")
            return [("DROP PRIMARY KEY",)]
        if self._tokens.looking_at("PARTITION") or self._tokens.looking_at("IF"):
            raise self._tokens.error_at(self._tokens.current, "DROP PARTITION is not supported")
        if self._tokens.current.upper == "(":
            return [("DROP COLUMN", name) for name in self._tokens.in_parentheses(self._names)]
        return [("DROP COLUMN", self._tokens.name("a column"))]
