"""UNNEST and LATERAL TABLE: each row with the rows that are made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from penstock.common.types import Row
from penstock.errors import RecordError
from penstock.errors.user_errors import call_failed, shorten, shown_name
from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.graph.operator_specs.columnar.stateless import CorrelateSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.joins.pairs import JoinPairs, gather_from, nulls
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.user_functions import open_functions, open_named
from penstock.runtime.columnar.values import (
    fields_of,
    first_invalid_value,
    unchecked_series,
    values_of_series,
    wrong_result,
)
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.user_code import close_functions
from penstock.sql.types import (
    DataType,
    MapType,
    MultisetType,
    RowType,
)

Made = tuple[Numbers, pl.DataFrame]  # for each row that was made, the row that it was made of


class CorrelateOperator(StreamOperator):
    """Makes rows of collections, or by a user function."""

    spec: CorrelateSpec

    def open(self, context: OperatorContext) -> None:
        """Compile the operands, open the user's function."""
        super().open(context)
        spec = self.spec
        self._operands = [
            compile_expression(each, spec.zone).alias(column(at))
            for at, each in enumerate(spec.operands)
        ]
        self._schema = schema_of(spec.output_types)
        self._pairing = JoinPairs(
            spec.input_types, spec.output_types, spec.condition, spec.zone, context.runtime_context
        )
        self._functions = open_functions(spec.operands, context.runtime_context)
        self._function: Any = None
        if spec.user is not None:
            self._function = getattr(spec.user, "function", spec.user)
            open_named(spec.function, self._function, context.runtime_context)

    def close(self) -> None:
        """Close the user functions."""
        self._pairing.close()
        close_functions(self._functions)
        if self._function is not None:
            close_functions([self._function])

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Join each row with the rows that are generated from it."""
        frame = batch.frame
        if not frame.height:
            return
        operands = [frame.select(each).to_series() for each in self._operands]
        operands = [
            each if len(each) == frame.height else each.new_from_index(0, frame.height)
            for each in operands
        ]
        rows, made = self._make(operands, frame.height)
        pairs = self._pairing.together(gather_from(frame)(rows), made)
        met = self._pairing.meets(pairs)
        if met is not None:
            rows, pairs = rows[met.to_numpy()], pairs.filter(met)
        if self.spec.outer:
            alone = np.setdiff1d(np.arange(frame.height), rows)
            if len(alone):
                pairs = pl.concat(
                    [pairs, self._pairing.padded(gather_from(frame)(alone), is_left=True)]
                )
                rows = np.concatenate((rows, alone))
                order = np.argsort(rows, kind="stable")
                rows, pairs = rows[order], gather_from(pairs)(order)
        if KIND in frame.columns:
            pairs = pairs.with_columns(gather_from(frame.select(KIND))(rows).to_series())
        if pairs.height:
            self.output.emit(ColumnBatch(pairs))

    def _make(self, operands: list[pl.Series], height: int) -> Made:
        if self._function:
            return self._call(operands, height)
        if self.spec.function == "REPLICATE ROWS":
            return self._replicate(operands[0])
        return self._unnest(operands[0])

    def _replicate(self, counts: pl.Series) -> Made:
        """Make as many rows as a number says: EXCEPT ALL and INTERSECT ALL count rows first."""
        sizes = counts.fill_null(0).to_numpy().clip(0)
        rows = np.repeat(np.arange(len(counts)), sizes)
        copies = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return rows, pl.DataFrame({column(0): copies}, schema=self._schema)

    # Collections

    def _unnest(self, collections: pl.Series) -> Made:
        sizes = collections.list.len().fill_null(0).to_numpy().astype(np.int64)
        rows = np.repeat(np.arange(len(collections)), sizes)
        elements = collections.filter(pl.Series(sizes > 0)).explode()
        places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
        kind = self.spec.operands[0].type
        if isinstance(kind, MultisetType):
            # an element is there as often as its count says
            counts = elements.struct.field("value").to_numpy()
            chosen = np.repeat(np.arange(len(rows)), counts)
            elements = elements.struct.field("key").gather(chosen)
            rows = rows[chosen]
            _, first = np.unique(rows, return_index=True)
            starts = np.repeat(first, np.diff(np.append(first, len(rows))))
            places = np.arange(len(rows)) - starts + 1
        element = kind.element_type if hasattr(kind, "element_type") else None
        if isinstance(kind, MapType) or isinstance(element, RowType):
            columns = [elements.struct.field(name) for name in elements.struct.fields]
        else:
            columns = [elements]
        if self.spec.function == "UNNEST WITH ORDINALITY":
            columns.append(pl.Series(places, dtype=pl.Int32))
        named = [
            each.cast(dtype).alias(name)
            for each, (name, dtype) in zip(columns, self._schema.items(), strict=True)
        ]
        return rows, pl.DataFrame(named) if len(rows) else nulls(self._schema, 0)

    # Functions

    def _call(self, operands: list[pl.Series], height: int) -> Made:
        types = [each.type for each in self.spec.operands]
        values = [values_of_series(each, kind) for each, kind in zip(operands, types, strict=True)]
        evaluate = getattr(self._function, "eval", self._function)
        rows: list[int] = []
        made: list[Any] = []
        arguments = list(zip(*values, strict=True)) if values else [()] * height
        for at, given in enumerate(arguments):
            try:
                results = [] if (found := evaluate(*given)) is None else list(_rows_of(found))
            except Exception as error:
                raise call_failed(self.spec.function, error, given) from error
            made += results
            rows += [at] * len(results)
        return np.array(rows, np.int64), self._columns_of(made)

    def _columns_of(self, made: list[Any]) -> pl.DataFrame:
        types = self.spec.output_types
        if len(types) == 1:
            fields = [
                [
                    each[0] if isinstance(each, Row | tuple) and len(each) == 1 else each
                    for each in made
                ]
            ]
        else:
            names = [f"f{at}" for at in range(len(types))]
            split = [tuple(fields_of(each, names)) for each in made]
            for row in split:
                if len(row) != len(types):
                    raise RecordError(
                        f"table function '{shown_name(self.spec.function)}' returned a row of {len(row)} values, "
                        f"but it has {len(types)} columns",
                        detail=f"the row is {shorten(row)}",
                        hint="declare one type per value in result_types",
                    )
            fields = [list(each) for each in zip(*split, strict=True)] or [[] for _ in types]
        return pl.DataFrame(
            [
                self._column_of(column(at), each, kind)
                for at, (each, kind) in enumerate(zip(fields, types, strict=True))
            ]
        )

    def _column_of(self, name: str, values: list[Any], kind: DataType) -> pl.Series:
        try:
            return unchecked_series(name, values, kind)
        except Exception as error:
            culprit = values[first_invalid_value(values, kind)]
            raise wrong_result(self.spec.function, kind, culprit) from error


def _rows_of(found: object) -> Iterable[Any]:
    """Return the rows that a function gave: it yields or returns several, or returns one."""
    if isinstance(found, Row | tuple | str | bytes | bytearray | dict) or not isinstance(
        found, Iterable
    ):
        return (found,)
    return found
