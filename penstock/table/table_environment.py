"""TableEnvironment: where tables are declared and statements are executed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.catalogs.in_memory import CatalogStore
from penstock.catalogs.manager import CatalogManager
from penstock.catalogs.tables import ResolvedTable, ResolvedView, TablePath
from penstock.datastream._checks import check_instance, check_text
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.not_implemented import not_implemented
from penstock.options.configuration import Configuration
from penstock.sql.errors import ValidationError
from penstock.sql.execution.planning import Planning
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.table_config import TableConfig

if TYPE_CHECKING:
    from penstock.sql.parse.statements import QueryStatement
    from penstock.sql.types import DataType
    from penstock.table.explain_detail import ExplainDetail
    from penstock.table.statement_set import StatementSet
    from penstock.table.table import Table
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_result import TableResult

_NO_PLANS = "plans are compiled again from the statement; a job resumes from its checkpoints"
_NO_MODULES = "SQL functions are built in; there are no loadable modules"
_NO_MODELS = "models are not supported"
_NO_JAVA = "there is no JVM to call it"
_USE_PYTHON = "write the function in Python: create_temporary_function"


class TableEnvironment:
    """The context of tables and SQL: catalogs, options, the execution of statements.

    >>> env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    >>> env.get_current_catalog(), env.get_current_database()
    ('default_catalog', 'default_database')
    """

    compile_plan_sql = not_implemented(_NO_PLANS)
    load_plan = not_implemented(_NO_PLANS)
    execute_plan = not_implemented(_NO_PLANS)
    load_module = not_implemented(_NO_MODULES)
    unload_module = not_implemented(_NO_MODULES)
    create_java_function = not_implemented(_NO_JAVA, hint=_USE_PYTHON)
    create_java_temporary_function = not_implemented(_NO_JAVA, hint=_USE_PYTHON)
    create_java_temporary_system_function = not_implemented(_NO_JAVA, hint=_USE_PYTHON)
    create_model = not_implemented(_NO_MODELS)
    create_temporary_model = not_implemented(_NO_MODELS)
    drop_model = not_implemented(_NO_MODELS)
    drop_temporary_model = not_implemented(_NO_MODELS)

    def __init__(
        self, environment: StreamExecutionEnvironment, settings: EnvironmentSettings
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._config = TableConfig(
            Configuration(settings.get_configuration()), environment.get_configuration()
        )
        self._manager = CatalogManager(
            settings.get_built_in_catalog_name(), settings.get_built_in_database_name()
        )
        self._planning = Planning(self._manager, self._config, environment)
        self._numbers = itertools.count()
        # by identity, with the function itself, so that no other gets the same one
        self._functions: dict[int, tuple[str, Any]] = {}

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """Return a new environment."""
        return TableEnvironment(
            StreamExecutionEnvironment.get_execution_environment(),
            checked_settings(environment_settings),
        )

    # Shared by the parts of the Table API

    @property
    def manager(self) -> CatalogManager:
        """The catalogs."""
        return self._manager

    @property
    def planning(self) -> Planning:
        """The planner, which makes plans and jobs."""
        return self._planning

    @property
    def stream_environment(self) -> StreamExecutionEnvironment:
        """The environment of streams behind this one."""
        return self._environment

    def get_config(self) -> TableConfig:
        """Return the options, to be read and changed."""
        return self._config

    # Statements

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute one statement and return its result. INSERT and SELECT start a job and do not wait for its end."""
        from penstock.sql.execution.executor import execute

        return execute(self, check_text(stmt, "stmt"))

    def sql_query(self, query: str) -> Table:
        """Return the table that a query describes. Nothing runs before it is executed or written."""
        return self._table_of(_query_of(check_text(query, "query")))

    def api_query(self, text: str) -> Table:
        """Return the table of a query that the Table API wrote."""
        return self._table_of(self.parse_query(text))

    def _table_of(self, query: QueryStatement) -> Table:
        from penstock.table.table import Table

        return Table(self, self._planning.query(query))

    def parse_query(self, text: str) -> QueryStatement:
        """Return a query that the Table API wrote."""
        from penstock.sql.parse.trees import concatenate_with_plus

        query = _query_of(text)
        concatenate_with_plus(query.tree)
        return query

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Return the plans of a statement as text."""
        from penstock.sql.execution.executor import parse_one
        from penstock.sql.execution.explaining import explain_statement

        return explain_statement(self, parse_one(check_text(stmt, "stmt")), extra_details)

    def create_statement_set(self) -> StatementSet:
        """Return a set that takes several INSERTs and runs them as one job."""
        from penstock.table.statement_set import StatementSet

        return StatementSet(self)

    # Tables and views

    def from_path(self, path: str) -> Table:
        """Return a table or view of a catalog."""
        return self._select_all(self.parse_path(path))

    def _select_all(self, parts: Sequence[str]) -> Table:
        self._manager.get(parts)
        return self.sql_query(f"SELECT * FROM {quoted(parts)}")  # noqa: S608 - a name

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return a table that is described here, without a name in a catalog."""
        return self._select_all(self.name_descriptor(descriptor))

    def name_descriptor(self, descriptor: TableDescriptor) -> tuple[str, ...]:
        """Return the name that statements of this environment have for a table that is described."""
        from penstock.sql.table_api.descriptors import table_of
        from penstock.table.table_descriptor import TableDescriptor

        check_instance(descriptor, TableDescriptor, "descriptor")
        connector = descriptor.get_options().get("connector", "managed")
        path = self._manager.qualify([f"*anonymous_{connector}${next(self._numbers)}*"])
        self._manager.add_anonymous(table_of(self, path, descriptor))
        return (path.name,)

    def name_function(self, function: Any) -> str:
        """Return the name that statements of this environment have for a function of the program."""
        from penstock.table.udf import as_user_function

        known = self._functions.get(id(function))
        if known is None:
            name = f"*{getattr(function, 'name', 'function')}${next(self._numbers)}*"
            self._manager.add_system_function(name, as_user_function(name, function))
            known = self._functions[id(function)] = (name, function)
        return quoted([known[0]])

    def from_elements(
        self,
        elements: Iterable[Any],
        schema: DataType | Sequence[str] | None = None,
        verify_schema: bool = True,
    ) -> Table:
        """Return a table of rows, tuples or dictionaries; types are guessed where no schema names them."""
        from penstock.sql.table_api.elements import rows_of, table_of_elements, table_of_expressions
        from penstock.sql.table_api.expression import Expression

        rows = rows_of(elements)
        if rows and all(isinstance(each, Expression) for each in rows):
            return table_of_expressions(self, rows, schema)
        return table_of_elements(self, rows, schema, verify=verify_schema)

    def from_pandas(
        self,
        pdf: Any,
        schema: DataType | Sequence[str] | Sequence[DataType] | None = None,
        splits_num: int = 1,
    ) -> Table:
        """Return a table of a pandas.DataFrame; it is cut into `splits_num` splits."""
        from penstock.sql.table_api.elements import table_of_pandas

        return table_of_pandas(self, pdf, schema, splits_num)

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Any, *fields_or_schema: Any
    ) -> None:
        """Give a table a name that statements of this environment can use."""
        self._create_view(view_path, table_or_data_stream, temporary=True, ignore_if_exists=False)

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> bool:
        """Give a table a name in a catalog; return whether it was made."""
        return self._create_view(
            view_path, table, temporary=False, ignore_if_exists=ignore_if_exists
        )

    def _create_view(
        self, view_path: str, table: Any, *, temporary: bool, ignore_if_exists: bool
    ) -> bool:
        from penstock.table.table import Table

        check_instance(table, Table, "table", hint="a DataStream needs a StreamTableEnvironment")
        path = self._manager.qualify(self.parse_path(view_path))
        node = table.plan
        view = ResolvedView(path, None, "", bound=lambda: node)
        return self._manager.create(view, temporary=temporary, ignore_if_exists=ignore_if_exists)

    def create_temporary_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool = False,  # noqa: N803
    ) -> None:
        """Declare a table for this environment alone."""
        self._create_table(path, descriptor, temporary=True, ignore_if_exists=ignoreIfExists)

    def create_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool = False,  # noqa: N803
    ) -> bool:
        """Declare a table in a catalog; return whether it was made."""
        return self._create_table(
            path, descriptor, temporary=False, ignore_if_exists=ignoreIfExists
        )

    def _create_table(
        self, path: str, descriptor: TableDescriptor, *, temporary: bool, ignore_if_exists: bool
    ) -> bool:
        from penstock.sql.table_api.descriptors import table_of

        table = table_of(self, self._manager.qualify(self.parse_path(path)), descriptor)
        return self._manager.create(table, temporary=temporary, ignore_if_exists=ignore_if_exists)

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view; return whether there was one."""
        path = self._manager.qualify(self.parse_path(view_path))
        return self._manager.drop(path, ResolvedView, temporary=True, if_exists=True)

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table; return whether there was one."""
        path = self._manager.qualify(self.parse_path(table_path))
        return self._manager.drop(path, ResolvedTable, temporary=True, if_exists=True)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a view of a catalog; return whether there was one."""
        path = self._manager.qualify(self.parse_path(view_path))
        return self._manager.drop(
            path, ResolvedView, temporary=False, if_exists=ignore_if_not_exists
        )

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a table of a catalog; return whether there was one."""
        path = self._manager.qualify(self.parse_path(table_path))
        return self._manager.drop(
            path, ResolvedTable, temporary=False, if_exists=ignore_if_not_exists
        )

    # Catalogs

    def register_catalog(self, catalog_name: str, catalog: CatalogStore) -> None:
        """Add a catalog."""
        self._manager.add_catalog(check_text(catalog_name, "catalog_name"), catalog)

    def create_catalog(self, catalog_name: str, catalog_descriptor: Any) -> None:
        """Add a catalog that options describe."""
        from penstock.sql.execution.ddl import new_catalog

        configuration = catalog_descriptor.configuration
        catalog = new_catalog(catalog_name, configuration.to_dict(), catalog_descriptor.comment)
        self._manager.add_catalog(catalog_name, catalog)

    def get_catalog(self, catalog_name: str) -> CatalogStore | None:
        """Return a catalog, or None."""
        known = self._manager.has_catalog(catalog_name)
        return self._manager.catalog(catalog_name) if known else None

    def use_catalog(self, catalog_name: str) -> None:
        """Look names up in a catalog from now on."""
        self._manager.use_catalog(check_text(catalog_name, "catalog_name"))

    def use_database(self, database_name: str) -> None:
        """Look names up in a database of the current catalog from now on."""
        self._manager.use_database([check_text(database_name, "database_name")])

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self._manager.current_catalog

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self._manager.current_database

    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        return self._manager.catalogs()

    def list_databases(self) -> list[str]:
        """Return the names of the databases of the current catalog."""
        return list(self._manager.catalog(self._manager.current_catalog).databases())

    def list_tables(self) -> list[str]:
        """Return the names of the tables and views of the current database."""
        return self._manager.tables()

    def list_views(self) -> list[str]:
        """Return the names of the views of the current database."""
        return self._manager.views()

    def list_materialized_tables(self) -> list[str]:
        """Return an empty list: materialized tables are not supported."""
        return []

    def list_temporary_tables(self) -> list[str]:
        """Return the names of the temporary tables and views of the current database."""
        return sorted(
            [*self._manager.temporary(ResolvedTable), *self._manager.temporary(ResolvedView)]
        )

    def list_temporary_views(self) -> list[str]:
        """Return the names of the temporary views of the current database."""
        return self._manager.temporary(ResolvedView)

    def list_models(self) -> list[str]:
        """Return an empty list: models are not supported."""
        return []

    def list_temporary_models(self) -> list[str]:
        """Return an empty list: models are not supported."""
        return []

    def list_modules(self) -> list[str]:
        """Return the one module, core."""
        return ["core"]

    def list_full_modules(self) -> list[tuple[str, bool]]:
        """Return the one module, core, which is in use."""
        return [("core", True)]

    def use_modules(self, *module_names: str) -> None:
        """Accept the one module, core."""
        if module_names != ("core",):
            raise ArgumentError(
                f"unknown module {', '.join(module_names)}", hint="the only module is core"
            )

    # Functions

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Register a function that statements can call in any catalog."""
        from penstock.table.udf import as_user_function

        made = as_user_function(check_text(name, "name"), function)
        if self._manager.has_system_function(name):
            raise ValidationError(
                f"function '{name}' already exists",
                hint="drop_temporary_system_function removes it",
            )
        self._manager.add_system_function(name, made)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Let statements call a function, under a name of a catalog."""
        self._create_function(path, function, temporary=True)

    def create_function(self, path: str, function: Any, ignore_if_exists: bool = False) -> None:
        """Keep a function in a catalog."""
        where = self._manager.qualify(self.parse_path(path))
        if ignore_if_exists and self._manager.has_function(where, temporary=False):
            return
        self._create_function(path, function, temporary=False)

    def _create_function(self, path: str, function: Any, *, temporary: bool) -> None:
        from penstock.table.udf import as_user_function

        where = self._manager.qualify(self.parse_path(path))
        made = as_user_function(where.name, function)
        if self._manager.has_function(where, temporary=temporary):
            raise ValidationError(f"function {where} already exists", hint="drop it first")
        self._manager.add_function(where, made, temporary=temporary)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drop a function without catalog; return whether there was one."""
        return self._manager.drop_system_function(check_text(name, "name"))

    def drop_temporary_function(self, path: str) -> bool:
        """Drop a temporary function; return whether there was one."""
        where = self._manager.qualify(self.parse_path(path))
        return self._manager.drop_function(where, temporary=True)

    def drop_function(self, path: str) -> bool:
        """Drop a function of a catalog; return whether there was one."""
        where = self._manager.qualify(self.parse_path(path))
        return self._manager.drop_function(where, temporary=False)

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of the user's functions."""
        return self._manager.functions()

    def list_functions(self) -> list[str]:
        """Return the names of all functions."""
        from penstock.sql.execution.show import built_in_functions

        return sorted({*built_in_functions(), *self._manager.functions()})

    # Dependencies of functions

    def add_python_file(self, file_path: str) -> None:
        """Send a file or directory along with the functions."""
        self._environment.add_python_file(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Send an archive along with the functions."""
        self._environment.add_python_archive(archive_path, target_dir)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Install packages where the functions run."""
        self._environment.set_python_requirements(requirements_file_path, requirements_cache_dir)

    # Names

    def parse_path(self, path: str) -> tuple[str, ...]:
        """Return the parts of a name as programs write it: a.b.c, parts in backticks if need be."""
        return parse_path(check_text(path, "path"))

    def name_of(self, path: TablePath) -> str:
        """Return a full name as results show it."""
        return f"{path.catalog}.{path.database}.{path.name}"


def _query_of(text: str) -> QueryStatement:
    """Return the one query that a text holds."""
    from penstock.sql.execution.executor import parse_one
    from penstock.sql.parse import statements

    statement = parse_one(text)
    if not isinstance(statement, statements.QueryStatement):
        raise ValidationError(
            "sql_query needs a query", detail=text, hint="use execute_sql for other statements"
        )
    return statement


def checked_settings(given: Any) -> EnvironmentSettings:
    """Return settings; a Configuration stands for settings with these options."""
    if isinstance(given, Configuration):
        return EnvironmentSettings.new_instance().with_configuration(given).build()
    if isinstance(given, EnvironmentSettings):
        return given
    raise ArgumentTypeError(
        f"environment_settings must be EnvironmentSettings, got {given!r}",
        hint="use EnvironmentSettings.in_streaming_mode()",
    )


def parse_path(path: str) -> tuple[str, ...]:
    """Return the parts of a name.

    >>> parse_path("db.`my.table`")
    ('db', 'my.table')
    """
    parts: list[str] = []
    at = 0
    while True:
        if path[at : at + 1] == "`":
            end = path.find("`", at + 1)
            while end >= 0 and path[end : end + 2] == "``":
                end = path.find("`", end + 2)
            part = path[at + 1 : end].replace("``", "`") if end >= 0 else ""
            after = end + 1
        else:
            after = path.find(".", at)
            after = len(path) if after < 0 else after
            part, end = path[at:after].strip(), after
        if end < 0 or not part or path[after : after + 1] not in {"", "."}:
            raise ArgumentError(
                f"invalid name of a table or function: '{path}'",
                hint="write catalog.database.name; put parts with other characters in backticks",
            )
        parts.append(part)
        if after >= len(path):
            return tuple(parts)
        at = after + 1


def quoted(parts: Iterable[str]) -> str:
    """Return a name as SQL writes it.

    >>> quoted(["db", "my table"])
    '`db`.`my table`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


__all__ = ["TableEnvironment"]


def __getattr__(name: str) -> Any:
    """Give the one name of PyFlink's module that is defined on top of this one."""
    if name == "StreamTableEnvironment":
        from penstock.table.stream_table_environment import StreamTableEnvironment

        return StreamTableEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
