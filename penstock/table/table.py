"""Table: a query that can be executed, written into another table, or made into further queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_instance, check_int
from penstock.errors.not_implemented import not_implemented
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.execution.explain_detail import ExplainDetail
from penstock.sql.execution.query_scope import QueryScope, expanded
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.parse import statements as sql
from penstock.sql.results.resolved_schema import ResolvedSchema
from penstock.sql.results.table_schema import TableSchema
from penstock.sql.table_api.expression import (
    AliasExpression,
    ColumnExpression,
    Expression,
    UserFunctionExpression,
    as_expression,
    quoted_name,
)
from penstock.sql.table_api.windows import GroupWindow, OverWindow
from penstock.sql.types import RowType
from penstock.table.grouped_tables import (
    MANY_ROWS,
    AggregatedTable,
    GroupedTable,
    GroupWindowedTable,
    OverWindowedTable,
    WindowGroupedTable,
    call_of,
    name_of,
)
from penstock.table.table_pipeline import TablePipeline

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from penstock.sql.results.column_results import ColumnResult, ResultBatches
    from penstock.sql.results.table_result import TableResult
    from penstock.sql.table_api.table_descriptor import TableDescriptor
    from penstock.table.table_environment import TableEnvironment


class Table:
    """A query. Its methods make further queries; nothing runs before it is executed.

    In SQL it is known by the text that str() gives: sql_query(f"SELECT * FROM {table}").
    """

    flat_aggregate = not_implemented(MANY_ROWS, hint="use ROW_NUMBER() OVER (...)")
    from_changelog = not_implemented("use from_changelog_stream to read changes")
    to_changelog = not_implemented("use to_changelog_stream to get changes")

    def __init__(self, environment: TableEnvironment, plan: LogicalNode) -> None:
        self._environment = environment
        self._plan = plan
        self._name: str | None = None

    @property
    def plan(self) -> LogicalNode:
        """The logical plan."""
        return self._plan

    def __str__(self) -> str:
        if self._name is None:
            self._name = self._environment.context.name_plan(self._plan)
        return quoted_name(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._names:
            hint = None if name.startswith("_") else did_you_mean(name, self._names)
            raise AttributeError(
                f"the table has no method or column '{name}'" + (f"; {hint}" if hint else "")
            )
        return ColumnExpression(name)

    @property
    def _names(self) -> list[str]:
        return [each.name for each in self.__dict__["_plan"].schema]

    # Properties

    def get_schema(self) -> TableSchema:
        """Return names and types of the columns, in PyFlink's old form."""
        return TableSchema(self._names, [each.type for each in self._plan.schema])

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return names and types of the columns."""
        return ResolvedSchema.of_plan(self._plan.schema)

    def print_schema(self) -> None:
        """Print names and types of the columns."""
        print(self.get_resolved_schema())

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the plans as text."""
        from penstock.sql.execution.explaining import explain_plans

        return explain_plans(self._environment.context, [self._plan], extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plans."""
        print(self.explain(*extra_details))

    def _repr_html_(self) -> str:
        """Return the columns and the plan, for notebooks. Nothing runs."""
        from penstock.sql.results.html_tables import html_details, html_schema, html_text

        schema = html_schema(self.get_resolved_schema())
        return schema + html_details("plan", html_text(self.explain()))

    # Execution

    def execute(self) -> TableResult:
        """Start the query and return its rows."""
        from penstock.sql.execution.queries import run

        return run(self._environment.context, self._plan)

    def to_pandas(self) -> Any:
        """Run the query to its end and return the table that it leaves as a pandas.DataFrame."""
        from penstock.sql.results.pandas_results import to_pandas

        return to_pandas(self.execute())

    def to_arrow(self) -> pa.Table:
        """Run a bounded query to its end and return the table that it leaves as a pyarrow.Table."""
        result = self._column_result()
        with self._columns(to_the_end="to_arrow") as frames:
            return result.arrow(frames)

    def to_polars(self) -> pl.DataFrame:
        """Run a bounded query to its end and return the table that it leaves as a polars.DataFrame."""
        result = self._column_result()
        with self._columns(to_the_end="to_polars") as frames:
            return result.polars(frames)

    def to_arrow_batches(self) -> ResultBatches[pa.RecordBatch]:
        """Start the query and return its changes as pyarrow.RecordBatches, as they come.

        The first column, row_kind, has the kind of each change: +I, -U, +U or -D. Closing the batches cancels the job.
        """
        result = self._column_result()
        result.check_names()
        return self._columns(convert=result.arrow_batch)

    def to_polars_batches(self) -> ResultBatches[pl.DataFrame]:
        """Start the query and return its changes as polars.DataFrames, as they come: like to_arrow_batches()."""
        result = self._column_result()
        result.check_names()
        return self._columns(convert=result.polars_batch)

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Run a bounded query to its end and return the table that it leaves as a Spark DataFrame.

        The rows do not pass through this process: tasks write them to files, which Spark's tasks read. The files are deleted when Spark
        has no DataFrame any more that is made of them, and when this process ends. `session`: by default that of this process.
        """
        from penstock.sql.execution.spark_results import to_spark

        return to_spark(self._environment.context, self._plan, session)

    def foreach_checkpoint(
        self, function: Callable[[DataFrame, int], Any], row_kinds: bool = False
    ) -> TableResult:
        """Start a job that calls function(df, checkpoint_id) for each completed checkpoint that has rows.

        `df` is a Spark DataFrame of the rows that came since the checkpoint before. After a failure the last call may be repeated, with
        the same number and the same rows. With `row_kinds`, column _row_kind has the kind of each change: +I, -U, +U or -D; a query that
        changes rows needs it.
        """
        from penstock.sql.execution.spark_results import foreach_checkpoint

        return foreach_checkpoint(
            self._environment.context, self._plan, function, row_kinds=row_kinds
        )

    def _column_result(self) -> ColumnResult:
        from penstock.sql.results.column_results import ColumnResult

        return ColumnResult(self._names, [each.type for each in self._plan.schema])

    def _columns(
        self, *, to_the_end: str | None = None, convert: Callable[[pl.DataFrame], Any] | None = None
    ) -> ResultBatches[Any]:
        from penstock.sql.execution.queries import run_columns
        from penstock.sql.results.column_results import ResultBatches

        frames, client = run_columns(self._environment.context, self._plan, to_the_end=to_the_end)
        return ResultBatches(frames, client, convert or (lambda frame: frame))

    def insert_into(
        self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False
    ) -> TablePipeline:
        """Say which table the rows are to be written into."""
        environment = self._environment
        if isinstance(table_path_or_descriptor, str):
            parts = environment.parse_path(table_path_or_descriptor)
            environment.context.catalogs.get(parts)
        else:
            from penstock.sql.execution.descriptors import name_descriptor

            parts = name_descriptor(environment.context, table_path_or_descriptor)
        query = sql.QueryStatement(tree=None)  # the plan is there already
        insert = sql.InsertStatement(table=parts, query=query, overwrite=overwrite)
        return TablePipeline(environment, environment.context.planner.write(self._plan, insert))

    def execute_insert(
        self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False
    ) -> TableResult:
        """Start a job that writes the rows into a table."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    # Columns

    def select(self, *fields: object) -> Table:
        """Compute columns."""
        return self._select(self._shown(fields))

    def alias(self, field: str, *fields: str) -> Table:
        """Give the first columns other names."""
        names = [_name(each) for each in (field, *fields)]
        if len(names) > len(self._names):
            raise ArgumentError(f"got {len(names)} names for {len(self._names)} columns")
        pairs = zip(self._names, [*names, *self._names[len(names) :]], strict=True)
        return self._select(f"{quoted_name(old)} AS {quoted_name(new)}" for old, new in pairs)

    def add_columns(self, *fields: Expression) -> Table:
        """Add columns behind the others."""
        for name in map(name_of, fields):
            if name in self._names:
                raise ValidationError(
                    f"column '{name}' already exists", hint="use add_or_replace_columns"
                )
        return self._select(["*", *self._shown(fields)])

    def add_or_replace_columns(self, *fields: Expression) -> Table:
        """Add columns, in the place of those with the same name."""
        given = {name_of(each): each for each in fields}
        chosen: list[Any] = [given.pop(name, ColumnExpression(name)) for name in self._names]
        return self.select(*chosen, *given.values())

    def rename_columns(self, *fields: Expression) -> Table:
        """Give columns other names: col("a").alias("b")."""
        renamed: dict[str, str] = {}
        for each in fields:
            if not (
                isinstance(each, AliasExpression) and isinstance(each.expression, ColumnExpression)
            ):
                raise ArgumentError(
                    f"{each} does not rename a column", hint="write col('a').alias('b')"
                )
            renamed[each.expression.name] = each.names[0]
        self._check_columns(renamed)
        return self.select(
            *(
                ColumnExpression(name).alias(renamed[name])
                if name in renamed
                else ColumnExpression(name)
                for name in self._names
            )
        )

    def drop_columns(self, *fields: object) -> Table:
        """Leave out columns."""
        gone = [
            each.name
            for each in expanded(fields, self._names)
            if isinstance(each, ColumnExpression)
        ]
        self._check_columns(gone)
        return self.select(*(ColumnExpression(name) for name in self._names if name not in gone))

    def _check_columns(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._names:
                raise ValidationError(
                    f"column '{name}' not found", hint=did_you_mean(name, self._names)
                )

    def map(self, func: Any) -> Table:
        """Call a function for each row; its result is a row of columns, or one column."""
        return self._mapped(func)

    def flat_map(self, func: Any) -> Table:
        """Call a table function for each row and give its rows."""
        call, names = call_of(self._all_columns_call(func))
        lateral = self._lateral(call, names, "INNER JOIN")
        return self._query(f"SELECT `f`.* FROM {self}{lateral}")  # noqa: S608

    def _all_columns_call(self, func: Any) -> Any:
        """Return the call; a function without operands takes all columns, as one row."""
        if isinstance(func, Expression):
            return func
        if not hasattr(func, "taking_row"):
            raise ArgumentTypeError(
                f"{func!r} is not a user-defined function",
                hint="create one with udf(), udtf() or udaf()",
            )
        operands = [ColumnExpression(name) for name in self._names]
        call = UserFunctionExpression(func.taking_row(self._names), operands)
        return call.alias(*func.aliases) if func.aliases else call

    def _mapped(self, func: object) -> Table:
        call, names = call_of(self._all_columns_call(func))
        made = self._select([f"{call.sql(self._scope())} AS `$row`"])
        kind = made.plan.schema[0].type
        if not isinstance(kind, RowType):
            return made.alias(names[0] if names else "_c0")
        fields = kind.field_names()
        wanted = [*names, *fields[len(names) :]]
        pairs = zip(fields, wanted, strict=True)
        return made._select(  # noqa: SLF001 - another Table
            f"`$row`.{quoted_name(old)} AS {quoted_name(new)}" for old, new in pairs
        )

    # Rows

    def filter(self, predicate: Expression) -> Table:
        """Keep the rows for which a condition is TRUE."""
        condition = as_expression(predicate).sql(self._scope())
        return self._query(f"SELECT * FROM {self} WHERE {condition}")  # noqa: S608

    def where(self, predicate: Expression) -> Table:
        """Keep the rows for which a condition is TRUE."""
        return self.filter(predicate)

    def distinct(self) -> Table:
        """Keep one of equal rows."""
        return self._query(f"SELECT DISTINCT * FROM {self}")  # noqa: S608

    def order_by(self, *fields: object) -> Table:
        """Sort the rows: over streams, by time, or together with fetch."""
        scope = self._scope()
        keys = ", ".join(each.sql(scope) for each in expanded(fields, self._names))
        return OrderedTable(self, keys)

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Keep at most this number of rows."""
        return self.offset(offset).fetch(fetch) if offset else self.fetch(fetch)

    def offset(self, offset: int) -> Table:
        """Leave out the first rows."""
        return OrderedTable(self, "").offset(offset)

    def fetch(self, fetch: int) -> Table:
        """Keep at most this number of rows."""
        return OrderedTable(self, "").fetch(fetch)

    # Several tables

    def join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Put rows of two tables together. Their columns must have different names."""
        return self._join(right, "INNER JOIN", join_predicate)

    def left_outer_join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Put rows of two tables together; rows of this one without partner stay."""
        return self._join(right, "LEFT JOIN", join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Put rows of two tables together; rows of the other one without partner stay."""
        return self._join(right, "RIGHT JOIN", join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Put rows of two tables together; rows without partner stay."""
        return self._join(right, "FULL JOIN", join_predicate)

    def _join(self, right: Table, word: str, predicate: Any) -> Table:
        check_instance(right, Table, "right")
        for name in right._names:
            if name in self._names:
                raise ValidationError(
                    f"column '{name}' exists in both tables",
                    hint="rename it first: rename_columns(col('a').alias('b'))",
                )
        condition = "TRUE" if predicate is None else as_expression(predicate).sql(self._scope())
        if predicate is None and word == "INNER JOIN":
            return JoinedTable(self, right)
        return self._query(f"SELECT * FROM {self} {word} {right} ON {condition}")  # noqa: S608

    def join_lateral(
        self, table_function_call: Expression, join_predicate: Expression | None = None
    ) -> Table:
        """Put each row together with the rows that a table function makes of it."""
        return self._join_lateral(table_function_call, "INNER JOIN", join_predicate)

    def left_outer_join_lateral(
        self, table_function_call: Expression, join_predicate: Expression | None = None
    ) -> Table:
        """Put each row together with the rows that a table function makes of it; rows without any stay."""
        return self._join_lateral(table_function_call, "LEFT JOIN", join_predicate)

    def _join_lateral(self, given: Expression, word: str, predicate: Any) -> Table:
        call, names = call_of(given)
        lateral = self._lateral(call, names, word, predicate)
        return self._query(f"SELECT * FROM {self}{lateral}")  # noqa: S608

    def _lateral(
        self, call: Expression, names: Sequence[str], word: str, predicate: object = None
    ) -> str:
        scope = self._scope()
        condition = "TRUE" if predicate is None else as_expression(predicate).sql(scope)
        columns = f"({', '.join(map(quoted_name, names))})" if names else ""

        return f" {word} LATERAL TABLE({call.sql(scope)}) AS `f`{columns} ON {condition}"

    def union(self, right: Table) -> Table:
        """Give the rows of both, each once."""
        return self._set_operation(right, "UNION")

    def union_all(self, right: Table) -> Table:
        """Give the rows of both."""
        return self._set_operation(right, "UNION ALL")

    def intersect(self, right: Table) -> Table:
        """Give the rows that are in both, each once."""
        return self._set_operation(right, "INTERSECT")

    def intersect_all(self, right: Table) -> Table:
        """Give the rows that are in both, as often as in both."""
        return self._set_operation(right, "INTERSECT ALL")

    def minus(self, right: Table) -> Table:
        """Give the rows that are not in the other table, each once."""
        return self._set_operation(right, "EXCEPT")

    def minus_all(self, right: Table) -> Table:
        """Give the rows that are more often here than in the other table, as often as that."""
        return self._set_operation(right, "EXCEPT ALL")

    def _set_operation(self, right: Table, word: str) -> Table:
        check_instance(right, Table, "right")
        return self._query(f"SELECT * FROM {self} {word} SELECT * FROM {right}")  # noqa: S608

    # Groups and windows

    def group_by(self, *fields: object) -> GroupedTable:
        """Group rows by expressions."""
        return GroupedTable(*self._with_keys(expanded(fields, self._names)))

    def _with_keys(self, keys: Sequence[Expression]) -> tuple[Table, list[Expression]]:
        """Return the table with a column for each key that has an alias, and the keys as columns of it."""
        aliased = [each for each in keys if isinstance(each, AliasExpression)]
        columns = [
            ColumnExpression(each.names[0]) if isinstance(each, AliasExpression) else each
            for each in keys
        ]
        return (self.add_columns(*aliased) if aliased else self), columns

    def aggregate(self, func: Any) -> AggregatedTable:
        """Aggregate all rows with one function."""
        return GroupedTable(self, []).aggregate(func)

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Group rows by windows of time."""
        check_instance(
            window, GroupWindow, "window", hint="write Tumble.over(...).on(...).alias('w')"
        )
        if window.name is None:
            raise ArgumentError("the window has no name", hint="call alias('w') on it")
        return GroupWindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Declare windows over rows, for aggregates with over()."""
        for each in over_windows:
            check_instance(each, OverWindow, "an over window", hint="end it with alias('w')")
        return OverWindowedTable(self, {each.name or "": each for each in over_windows})

    # How queries are made

    def _scope(self, **more: Any) -> QueryScope:
        return QueryScope(self._environment.context, **more)

    def _shown(self, fields: Iterable[Any], scope: QueryScope | None = None) -> list[str]:
        scope = self._scope() if scope is None else scope
        shown = [
            each.sql(scope) if name_of(each) is not None else f"{each.sql(scope)} AS `_c{n}`"
            for n, each in enumerate(expanded(fields, self._names))
        ]
        if not shown:
            raise ArgumentError("select needs at least one column")
        return shown

    def _select(self, columns: Iterable[str], rest: str = "") -> Table:
        return self._query(f"SELECT {', '.join(columns)} FROM {self}{rest}")  # noqa: S608

    def _query(self, text: str) -> Table:
        return Table(self._environment, self._environment.context.query(text))


class OrderedTable(Table):
    """A sorted table, which supports offset and fetch."""

    def __init__(self, base: Table, keys: str, start: int = 0, count: int | None = None) -> None:
        self._base = base
        self._keys = keys
        self._start = start
        self._count = count
        text = f"SELECT * FROM {base}"  # noqa: S608 - a name of our own
        text += f" ORDER BY {keys}" if keys else ""
        text += f" OFFSET {start} ROWS" if start else ""
        text += f" FETCH NEXT {count} ROWS ONLY" if count is not None else ""
        environment = base._environment  # noqa: SLF001 - another Table
        plan = environment.context.query(text)
        super().__init__(environment, plan)

    def offset(self, offset: int) -> Table:
        """Leave out the first rows."""
        check_int(offset, "offset", minimum=0)
        return OrderedTable(self._base, self._keys, offset, self._count)

    def fetch(self, fetch: int) -> Table:
        """Keep at most this number of rows."""
        check_int(fetch, "fetch", minimum=0)
        if self._count is not None:
            return OrderedTable(self, "").fetch(fetch)
        return OrderedTable(self._base, self._keys, self._start, fetch)


class JoinedTable(Table):
    """A join of two tables; the condition is given by filter or where."""

    def __init__(self, left: Table, right: Table) -> None:
        self._left = left
        self._right = right
        environment = left._environment  # noqa: SLF001 - another Table
        text = f"SELECT * FROM {left} INNER JOIN {right} ON TRUE"  # noqa: S608
        super().__init__(environment, environment.context.query(text))

    def filter(self, predicate: Expression) -> Table:
        """Join on a condition."""
        condition = as_expression(predicate).sql(self._scope())
        text = f"SELECT * FROM {self._left} INNER JOIN {self._right} ON {condition}"  # noqa: S608
        return self._query(text)


def _name(given: object) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, ColumnExpression):
        return given.name
    raise ArgumentTypeError(f"{given!r} is not a column name")


__all__ = [
    "AggregatedTable",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "Table",
    "TablePipeline",
    "WindowGroupedTable",
]
