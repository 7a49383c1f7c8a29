"""TableEnvironment: where tables are declared and statements are executed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.catalogs.in_memory import CatalogStore
from penstock.catalogs.manager import CatalogManager
from penstock.catalogs.tables import ResolvedTable, ResolvedView
from penstock.common.job_client import JobClient
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_instance, check_text
from penstock.errors.not_implemented import not_implemented
from penstock.graph.transformations import Transformation
from penstock.options.configuration import Configuration
from penstock.options.option_checks import override
from penstock.sql.errors import ValidationError
from penstock.sql.execution.context import StatementContext
from penstock.sql.execution.parsing import parse_one, parse_query
from penstock.sql.execution.table_config import TableConfig
from penstock.sql.table_api.schema import Schema
from penstock.table.catalog.in_memory import Catalog
from penstock.table.environment_settings import EnvironmentSettings

if TYPE_CHECKING:
    from penstock.sql.execution.explain_detail import ExplainDetail
    from penstock.sql.results.table_result import TableResult
    from penstock.sql.table_api.table_descriptor import TableDescriptor
    from penstock.sql.types import DataType, RowType
    from penstock.table.statement_set import StatementSet
    from penstock.table.table import Table

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
        built_in = Catalog(
            settings.get_built_in_catalog_name(), settings.get_built_in_database_name()
        )
        self._context = StatementContext(
            CatalogManager(built_in), self._config, StreamExecutor(environment)
        )

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """Return a new environment."""
        return TableEnvironment(
            StreamExecutionEnvironment.get_execution_environment(),
            checked_settings(environment_settings),
        )

    # Shared by the parts of the Table API

    @property
    def context(self) -> StatementContext:
        """The catalogs, the planner and the options that statements work on."""
        return self._context

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
        from penstock.sql.execution.dispatch import execute

        return execute(self._context, check_text(stmt, "stmt"))

    def sql_query(self, query: str) -> Table:
        """Return the table that a query describes. Nothing runs before it is executed or written."""
        from penstock.table.table import Table

        statement = parse_query(check_text(query, "query"))
        return Table(self, self._context.planner.query(statement))

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Return the plans of a statement as text."""
        from penstock.sql.execution.explaining import explain_statement

        return explain_statement(self._context, parse_one(check_text(stmt, "stmt")), extra_details)

    def create_statement_set(self) -> StatementSet:
        """Return a set that takes several INSERTs and runs them as one job."""
        from penstock.table.statement_set import StatementSet

        return StatementSet(self)

    # Tables and views

    def from_path(self, path: str) -> Table:
        """Return a table or view of a catalog."""
        return self._select_all(self.parse_path(path))

    def _select_all(self, parts: Sequence[str]) -> Table:
        self._context.catalogs.get(parts)
        return self.sql_query(f"SELECT * FROM {quoted(parts)}")  # noqa: S608 - a name

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return a table that is described here, without a name in a catalog."""
        from penstock.sql.execution.descriptors import name_descriptor

        return self._select_all(name_descriptor(self._context, descriptor))

    def from_elements(
        self,
        elements: Iterable[Any],
        schema: DataType | Sequence[str] | None = None,
        verify_schema: bool = True,
    ) -> Table:
        """Return a table of rows, tuples or dictionaries; types are guessed where no schema names them."""
        from penstock.sql.execution.elements import plan_of_elements, plan_of_expressions, rows_of
        from penstock.sql.table_api.expression import Expression
        from penstock.table.table import Table

        rows = rows_of(elements)
        if rows and all(isinstance(each, Expression) for each in rows):
            return Table(self, plan_of_expressions(self._context, rows, schema))
        return Table(self, plan_of_elements(rows, schema, verify=verify_schema))

    def from_pandas(
        self,
        pdf: object,
        schema: DataType | Sequence[str] | Sequence[DataType] | None = None,
        splits_num: int = 1,
    ) -> Table:
        """Return a table of a pandas.DataFrame; it is cut into `splits_num` splits."""
        from penstock.sql.execution.elements import plan_of_pandas
        from penstock.table.table import Table

        return Table(self, plan_of_pandas(pdf, schema, splits_num))

    def from_arrow(
        self,
        data: Any,
        schema: DataType | Sequence[str] | Sequence[DataType] | None = None,
        splits_num: int = 1,
    ) -> Table:
        """Return a table of Arrow data: a pyarrow.Table, RecordBatch, RecordBatchReader or Dataset, or another object with __arrow_c_stream__.

        Readers and datasets are read to their end at once. `schema` replaces names, types or both; the data is cut into `splits_num` splits.
        """
        from penstock.sql.execution.data_frames import plan_of_arrow
        from penstock.table.table import Table

        return Table(self, plan_of_arrow(data, schema, splits_num))

    def from_polars(
        self,
        df: Any,
        schema: DataType | Sequence[str] | Sequence[DataType] | None = None,
        splits_num: int = 1,
    ) -> Table:
        """Return a table of a polars.DataFrame or LazyFrame, with the parameters of from_arrow()."""
        from penstock.sql.execution.data_frames import plan_of_polars
        from penstock.table.table import Table

        return Table(self, plan_of_polars(df, schema, splits_num))

    def from_spark(self, df: object, schema: Schema | None = None) -> Table:
        """Return a table of a bounded DataFrame of Spark.

        `schema` adds computed columns and a watermark to its columns; or it chooses some of them, with types to which their values are
        converted. When a job starts that reads the table, Spark computes the DataFrame once, with the columns that the query needs, and
        its tasks write the rows to files of the job.
        """
        from penstock.connectors.spark.source import data_frame_columns
        from penstock.connectors.spark.table import DataFrameScan

        frame, columns = data_frame_columns(df, "from_spark")

        def scan(chosen: RowType) -> DataFrameScan:
            return DataFrameScan(frame, chosen)

        return self._from_spark(columns, schema, scan)

    def from_spark_stream(
        self, df: object, schema: Schema | None = None, *, trigger_interval: str | None = None
    ) -> Table:
        """Return an unbounded table of a streaming DataFrame of Spark, with all sources and options that Structured Streaming has.

        `schema` is as in from_spark(). `trigger_interval` is the time from one micro-batch of Spark to the next, such as "1 second";
        without it, each follows the one before.
        """
        from penstock.connectors.spark.source import data_frame_columns
        from penstock.connectors.spark.table import DataFrameStreamScan

        frame, columns = data_frame_columns(df, "from_spark_stream", streaming=True)
        if trigger_interval is not None:
            check_text(trigger_interval, "trigger_interval")

        def scan(chosen: RowType) -> DataFrameStreamScan:
            return DataFrameStreamScan(frame, chosen, trigger_interval)

        return self._from_spark(columns, schema, scan)

    def _from_spark(
        self, columns: RowType, schema: Schema | None, scan: Callable[[RowType], object]
    ) -> Table:
        from penstock.sql.execution.descriptors import name_scan

        if schema is not None:
            check_instance(schema, Schema, "schema", hint="use Schema.new_builder()....build()")
        return self._select_all(name_scan(self._context, "DataFrame", columns, schema, scan))

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
        path = self._context.catalogs.qualify(self.parse_path(view_path))
        node = table.plan
        view = ResolvedView(path, None, "", bound=lambda: node)
        return self._context.catalogs.create(
            view, temporary=temporary, ignore_if_exists=ignore_if_exists
        )

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
        from penstock.sql.execution.descriptors import table_of

        table = table_of(
            self._context, self._context.catalogs.qualify(self.parse_path(path)), descriptor
        )
        return self._context.catalogs.create(
            table, temporary=temporary, ignore_if_exists=ignore_if_exists
        )

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view; return whether there was one."""
        path = self._context.catalogs.qualify(self.parse_path(view_path))
        return self._context.catalogs.drop(path, ResolvedView, temporary=True, if_exists=True)

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table; return whether there was one."""
        path = self._context.catalogs.qualify(self.parse_path(table_path))
        return self._context.catalogs.drop(path, ResolvedTable, temporary=True, if_exists=True)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a view of a catalog; return whether there was one."""
        path = self._context.catalogs.qualify(self.parse_path(view_path))
        return self._context.catalogs.drop(
            path, ResolvedView, temporary=False, if_exists=ignore_if_not_exists
        )

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a table of a catalog; return whether there was one."""
        path = self._context.catalogs.qualify(self.parse_path(table_path))
        return self._context.catalogs.drop(
            path, ResolvedTable, temporary=False, if_exists=ignore_if_not_exists
        )

    # Catalogs

    def register_catalog(self, catalog_name: str, catalog: CatalogStore) -> None:
        """Add a catalog."""
        self._context.catalogs.add_catalog(check_text(catalog_name, "catalog_name"), catalog)

    def create_catalog(self, catalog_name: str, catalog_descriptor: Any) -> None:
        """Add a catalog that options describe."""
        from penstock.sql.execution.ddl import new_catalog

        configuration = catalog_descriptor.configuration
        catalog = new_catalog(catalog_name, configuration.to_dict(), catalog_descriptor.comment)
        self._context.catalogs.add_catalog(catalog_name, catalog)

    def get_catalog(self, catalog_name: str) -> CatalogStore | None:
        """Return a catalog, or None."""
        known = self._context.catalogs.has_catalog(catalog_name)
        return self._context.catalogs.catalog(catalog_name) if known else None

    def use_catalog(self, catalog_name: str) -> None:
        """Look names up in a catalog from now on."""
        self._context.catalogs.use_catalog(check_text(catalog_name, "catalog_name"))

    def use_database(self, database_name: str) -> None:
        """Look names up in a database of the current catalog from now on."""
        self._context.catalogs.use_database([check_text(database_name, "database_name")])

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self._context.catalogs.current_catalog

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self._context.catalogs.current_database

    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        return self._context.catalogs.catalogs()

    def list_databases(self) -> list[str]:
        """Return the names of the databases of the current catalog."""
        return list(
            self._context.catalogs.catalog(self._context.catalogs.current_catalog).databases()
        )

    def list_tables(self) -> list[str]:
        """Return the names of the tables and views of the current database."""
        return self._context.catalogs.tables()

    def list_views(self) -> list[str]:
        """Return the names of the views of the current database."""
        return self._context.catalogs.views()

    def list_materialized_tables(self) -> list[str]:
        """Return an empty list: materialized tables are not supported."""
        return []

    def list_temporary_tables(self) -> list[str]:
        """Return the names of the temporary tables and views of the current database."""
        return sorted(
            [
                *self._context.catalogs.temporary(ResolvedTable),
                *self._context.catalogs.temporary(ResolvedView),
            ]
        )

    def list_temporary_views(self) -> list[str]:
        """Return the names of the temporary views of the current database."""
        return self._context.catalogs.temporary(ResolvedView)

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
        from penstock.sql.execution.session import check_modules

        check_modules(module_names)

    # Functions

    def create_temporary_system_function(self, name: str, function: object) -> None:
        """Register a function that statements can call in any catalog."""
        from penstock.sql.table_api.udf import as_user_function

        made = as_user_function(check_text(name, "name"), function)
        if self._context.catalogs.has_system_function(name):
            raise ValidationError(
                f"function '{name}' already exists",
                hint="drop_temporary_system_function removes it",
            )
        self._context.catalogs.add_system_function(name, made)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Let statements call a function, under a name of a catalog."""
        self._create_function(path, function, temporary=True)

    def create_function(self, path: str, function: Any, ignore_if_exists: bool = False) -> None:
        """Keep a function in a catalog."""
        where = self._context.catalogs.qualify(self.parse_path(path))
        if ignore_if_exists and self._context.catalogs.has_function(where, temporary=False):
            return
        self._create_function(path, function, temporary=False)

    def _create_function(self, path: str, function: Any, *, temporary: bool) -> None:
        from penstock.sql.table_api.udf import as_user_function

        where = self._context.catalogs.qualify(self.parse_path(path))
        made = as_user_function(where.name, function)
        if self._context.catalogs.has_function(where, temporary=temporary):
            raise ValidationError(f"function {where} already exists", hint="drop it first")
        self._context.catalogs.add_function(where, made, temporary=temporary)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drop a function without catalog; return whether there was one."""
        return self._context.catalogs.drop_system_function(check_text(name, "name"))

    def drop_temporary_function(self, path: str) -> bool:
        """Drop a temporary function; return whether there was one."""
        where = self._context.catalogs.qualify(self.parse_path(path))
        return self._context.catalogs.drop_function(where, temporary=True)

    def drop_function(self, path: str) -> bool:
        """Drop a function of a catalog; return whether there was one."""
        where = self._context.catalogs.qualify(self.parse_path(path))
        return self._context.catalogs.drop_function(where, temporary=False)

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of the user's functions."""
        return self._context.catalogs.functions()

    def list_functions(self) -> list[str]:
        """Return the names of all functions."""
        from penstock.sql.execution.show import all_functions

        return all_functions(self._context)

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


class StreamExecutor:
    """Runs the jobs of statements, each in an environment of its own with the options of the given one."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        self._environment = environment

    def execute_async(
        self, transformations: Sequence[Transformation], options: Configuration, job_name: str
    ) -> JobClient:
        """Start a job; `options` override those of the program."""
        below = self._environment.get_configuration()
        job = StreamExecutionEnvironment(override(below, options))
        for each in transformations:
            job.add_operator(each)
        return job.execute_async(job_name)


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
