"""What of PyFlink's table package a stream's program needs: DataTypes, the types of columns in files.

Tables and SQL are not there. Their names can be imported, and raise an error that says so when they are used.
"""

from __future__ import annotations

from typing import Any

from penstock.common.not_implemented import not_implemented_class
from penstock.common.types import Row, RowKind
from penstock.table.data_types import DataTypes

_NOT_THERE = frozenset(
    {
        "AggregateFunction", "AsyncScalarFunction", "ChangelogMode", "CompiledPlan", "DataView", "EnvironmentSettings",
        "ExplainDetail", "Expression", "FormatDescriptor", "FunctionContext", "GroupWindowedTable", "GroupedTable",
        "ListView", "MapView", "Module", "ModuleEntry", "OverWindowedTable", "PlanReference", "ResultKind",
        "ScalarFunction", "Schema", "SqlDialect", "StatementSet", "StreamTableEnvironment", "Table",
        "TableAggregateFunction", "TableConfig", "TableDescriptor", "TableEnvironment", "TableFunction",
        "TablePipeline", "TableResult", "TableSchema", "UserDefinedType", "WindowGroupedTable",
    }
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NOT_THERE:
        return not_implemented_class(
            name,
            "Penstock has no tables and no SQL",
            hint="write the program with DataStream, or use Spark SQL on the files that it writes",
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["DataTypes", "Row", "RowKind"]
