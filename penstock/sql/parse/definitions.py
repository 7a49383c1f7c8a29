"""The grammar of CREATE, ALTER and DROP."""

from __future__ import annotations

from typing import Any

from penstock.sql.parse.columns import ColumnParser
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
    QueryStatement,
    Statement,
)

# Objects of Flink that are not supported, with an alternative.
_NOT_CREATED = {
    "MATERIALIZED": (
        "materialized tables are not supported",
        "INSERT INTO a table with a primary key: the job keeps it up to date",
    ),
    "MODEL": ("models are not supported", "call models from Python functions"),
}


class DefinitionParser(ColumnParser):
    """Reads statements that define things."""

    def query_statement(self) -> QueryStatement:
        """Take a query as a statement."""
        raise NotImplementedError

    # --- CREATE -------------------------------------------------------------------------------

    def create(self) -> Statement:
        """Take CREATE ..., of which CREATE is taken."""
        replace = self.accept("OR", "REPLACE")
        temporary = self.accept("TEMPORARY")
        system = temporary and self.accept("SYSTEM")
        kinds = ("FUNCTION",) if system else ("TABLE", "VIEW", "FUNCTION")
        if not temporary:
            kinds = (*kinds, "DATABASE", "CATALOG")
        if self.current.upper in _NOT_CREATED:
            raise self.error_at(self.current, *_NOT_CREATED[self.current.upper])
        kind = self.expect_any(*kinds)
        if replace and kind != "TABLE":
            raise self.error_at(self.previous, f"CREATE OR REPLACE {kind} is not supported")
        exists = self.accept("IF", "NOT", "EXISTS")
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
        table = self.path("the name of a table")
        parts: dict[str, Any] = self.table_elements() if self.current.upper == "(" else {}
        parts["comment"] = self.string() if self.accept("COMMENT") else None
        if self.looking_at("DISTRIBUTED"):
            raise self.error_at(self.current, "DISTRIBUTED BY is not supported")
        if self.accept("PARTITIONED", "BY"):
            parts["partition_keys"] = tuple(self.in_parentheses(self._names))
        if self.accept("WITH"):
            parts["options"] = self.options()
        if self.accept("LIKE"):
            parts["like"] = self.like_clause()
        elif self.accept("AS"):
            parts["query"] = self.query_statement()
        columns = self._column_names_of_query(parts)
        if columns and parts.get("query") is None:
            raise self.error_at(self.tokens[0], "columns without types need AS and a query")
        return CreateTableStatement(
            table=table, temporary=temporary, if_not_exists=exists, or_replace=replace, **parts
        )

    def _column_names_of_query(self, parts: dict[str, Any]) -> bool:
        """Return whether some columns are named without a type: CREATE TABLE t (a, b) AS SELECT."""
        return any(
            column.kind == "physical" and column.type is None for column in parts.get("columns", ())
        )

    def _names(self) -> list[str]:
        return self.separated(lambda: str(self.any_identifier("a column").this))

    def _create_view(self, temporary: bool, exists: bool) -> CreateViewStatement:
        view = self.path("the name of a view")
        columns = None
        if self.current.upper == "(":
            columns = tuple(self.in_parentheses(self._names))
        comment = self.string() if self.accept("COMMENT") else None
        self.expect("AS")
        return CreateViewStatement(
            view=view,
            query=self.query_statement(),
            columns=columns,
            comment=comment,
            temporary=temporary,
            if_not_exists=exists,
        )

    def _create_function(
        self, temporary: bool, system: bool, exists: bool
    ) -> CreateFunctionStatement:
        function = self.path("the name of a function")
        self.expect("AS")
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
        implementation = self.string("the name of a function or class in quotes")
        language = "JAVA"
        if self.accept("LANGUAGE"):
            language = self.expect_any("PYTHON", "JAVA", "SCALA")
        if language != "PYTHON":
            raise self.error_at(
                self.previous,
                f"{language.title()} functions are not supported",
                "use a Python function: AS 'module.name' LANGUAGE PYTHON",
            )
        if self.looking_at("USING"):
            raise self.error_at(self.current, "USING is not supported for Python functions")
        return implementation, language

    def _create_database(self, exists: bool) -> CreateDatabaseStatement:
        database = self.path("the name of a database")
        comment = self.string() if self.accept("COMMENT") else None
        options = self.options() if self.accept("WITH") else {}
        return CreateDatabaseStatement(
            database=database, comment=comment, options=options, if_not_exists=exists
        )

    def _create_catalog(self, exists: bool) -> CreateCatalogStatement:
        catalog = self.name("the name of a catalog")
        comment = self.string() if self.accept("COMMENT") else None
        options = self.options() if self.accept("WITH") else {}
        return CreateCatalogStatement(
            catalog=catalog, comment=comment, options=options, if_not_exists=exists
        )

    # --- DROP ---------------------------------------------------------------------------------

    def drop(self) -> DropStatement:
        """Take DROP ..., of which DROP is taken."""
        temporary = self.accept("TEMPORARY")
        system = temporary and self.accept("SYSTEM")
        kinds = ("FUNCTION",) if system else ("TABLE", "VIEW", "FUNCTION")
        if not temporary:
            kinds = (*kinds, "DATABASE", "CATALOG")
        kind = self.expect_any(*kinds)
        exists = self.accept("IF", "EXISTS")
        name = self.path(f"the name of a {kind.lower()}")
        cascade = kind == "DATABASE" and self.accept_any("RESTRICT", "CASCADE") == "CASCADE"
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
        temporary = self.accept("TEMPORARY")
        if temporary:
            self.accept("SYSTEM")
            self.expect("FUNCTION")
            return self._alter_function(True)
        kind = self.expect_any("TABLE", "VIEW", "DATABASE", "FUNCTION", "CATALOG")
        if kind == "TABLE":
            return self._alter_table()
        if kind == "VIEW":
            return self._alter_view()
        if kind == "DATABASE":
            database = self.path("the name of a database")
            self.expect("SET")
            return AlterDatabaseStatement(database=database, options=self.options())
        if kind == "FUNCTION":
            return self._alter_function(False)
        raise self.error_at(self.previous, "ALTER CATALOG is not supported")

    def _alter_view(self) -> AlterViewStatement:
        view = self.path("the name of a view")
        if self.accept("RENAME", "TO"):
            return AlterViewStatement(view=view, new_name=self.path("the name of a view"))
        self.expect("AS")
        return AlterViewStatement(view=view, query=self.query_statement())

    def _alter_function(self, temporary: bool) -> AlterFunctionStatement:
        exists = self.accept("IF", "EXISTS")
        function = self.path("the name of a function")
        self.expect("AS")
        implementation, language = self._implementation()
        return AlterFunctionStatement(
            function=function,
            implementation=implementation,
            language=language,
            temporary=temporary,
            if_exists=exists,
        )

    def _alter_table(self) -> AlterTableStatement:
        exists = self.accept("IF", "EXISTS")
        table = self.path("the name of a table")
        word = self.expect_any("RENAME", "SET", "RESET", "ADD", "MODIFY", "DROP")
        actions: list[tuple[Any, ...]]
        if word == "RENAME":
            actions = [self._rename()]
        elif word == "SET":
            actions = [("SET", self.options())]
        elif word == "RESET":
            actions = [("RESET", tuple(self.in_parentheses(self._strings)))]
        elif word == "DROP":
            actions = self._drop_actions()
        else:
            actions = self.schema_changes(word)
        return AlterTableStatement(table=table, actions=tuple(actions), if_exists=exists)

    def _strings(self) -> list[str]:
        return self.separated(self.string)

    def _rename(self) -> tuple[Any, ...]:
        if self.accept("TO"):
            return ("RENAME TO", self.path("the name of a table"))
        old = self.name("a column")
        self.expect("TO")
        return ("RENAME COLUMN", old, self.name("a column"))

    def _drop_actions(self) -> list[tuple[Any, ...]]:
        if self.accept("PRIMARY", "KEY"):
            return [("DROP PRIMARY KEY",)]
        if self.accept("WATERMARK"):
            return [("DROP WATERMARK",)]
        if self.accept("CONSTRAINT"):
            self.name("a constraint")
            return [("DROP PRIMARY KEY",)]
        if self.looking_at("PARTITION") or self.looking_at("IF"):
            raise self.error_at(self.current, "DROP PARTITION is not supported")
        if self.current.upper == "(":
            return [("DROP COLUMN", name) for name in self.in_parentheses(self._names)]
        return [("DROP COLUMN", self.name("a column"))]
