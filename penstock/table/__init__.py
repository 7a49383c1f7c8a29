"""Tables and SQL, by the names of PyFlink's table package.

Names are imported when they are first asked for: streams and files need the types of columns, and not the whole of SQL.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.common.types import Row, RowKind
from penstock.errors.not_implemented import not_implemented_class
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    from penstock.sql.connector.changelog_mode import ChangelogMode
    from penstock.table.data_view import (
        DataView,
        ListView,
        MapView,
    )
    from penstock.table.environment_settings import EnvironmentSettings
    from penstock.table.explain_detail import ExplainDetail
    from penstock.table.expression import Expression
    from penstock.table.result_kind import ResultKind
    from penstock.table.schema import Schema
    from penstock.table.sql_dialect import SqlDialect
    from penstock.table.statement_set import StatementSet
    from penstock.table.stream_table_environment import StreamTableEnvironment
    from penstock.table.table import (
        GroupedTable,
        GroupWindowedTable,
        OverWindowedTable,
        Table,
        TablePipeline,
        WindowGroupedTable,
    )
    from penstock.table.table_config import TableConfig
    from penstock.table.table_descriptor import FormatDescriptor, TableDescriptor
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.table_result import TableResult
    from penstock.table.table_schema import TableSchema
    from penstock.table.udf import (
        AggregateFunction,
        AsyncScalarFunction,
        FunctionContext,
        ScalarFunction,
        TableAggregateFunction,
        TableFunction,
    )

# Where the names live that are there.
_MODULES = {
    "AggregateFunction": "udf",
    "AsyncScalarFunction": "udf",
    "ChangelogMode": "changelog_mode",
    "DataView": "data_view",
    "EnvironmentSettings": "environment_settings",
    "ExplainDetail": "explain_detail",
    "Expression": "expression",
    "FormatDescriptor": "table_descriptor",
    "FunctionContext": "udf",
    "GroupWindowedTable": "table",
    "GroupedTable": "table",
    "ListView": "data_view",
    "MapView": "data_view",
    "OverWindowedTable": "table",
    "ResultKind": "result_kind",
    "ScalarFunction": "udf",
    "Schema": "schema",
    "SqlDialect": "sql_dialect",
    "StatementSet": "statement_set",
    "StreamTableEnvironment": "stream_table_environment",
    "Table": "table",
    "TableAggregateFunction": "udf",
    "TableConfig": "table_config",
    "TableDescriptor": "table_descriptor",
    "TableEnvironment": "table_environment",
    "TableFunction": "udf",
    "TablePipeline": "table",
    "TableResult": "table_result",
    "TableSchema": "table_schema",
    "WindowGroupedTable": "table",
}
_NO_COMPILED = "plans are compiled again from the statement; a job resumes from its checkpoints"
_NOT_THERE = {
    "CompiledPlan": _NO_COMPILED,
    "Module": "SQL functions are built in; there are no loadable modules",
    "ModuleEntry": "SQL functions are built in; there are no loadable modules",
    "PlanReference": _NO_COMPILED,
    "UserDefinedType": "only SQL types are supported in columns",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found = getattr(importlib.import_module(f"penstock.table.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    if name in _NOT_THERE:
        return not_implemented_class(name, _NOT_THERE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_NOT_THERE})


__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "ChangelogMode",
    "CompiledPlan",
    "DataTypes",
    "DataView",
    "EnvironmentSettings",
    "ExplainDetail",
    "Expression",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindowedTable",
    "GroupedTable",
    "ListView",
    "MapView",
    "Module",
    "ModuleEntry",
    "OverWindowedTable",
    "PlanReference",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "SqlDialect",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableAggregateFunction",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TablePipeline",
    "TableResult",
    "TableSchema",
    "UserDefinedType",
    "WindowGroupedTable",
]
