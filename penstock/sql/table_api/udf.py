"""User-defined functions: what makes functions with types of callables and of the classes that users derive."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from penstock.catalogs.reader import UserFunction
from penstock.errors import ArgumentError, ArgumentTypeError, UnsupportedOperationError
from penstock.sql.types import DataType, RowType
from penstock.sql.udf.functions import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    UserDefinedFunction,
)
from penstock.sql.udf.runners import (
    RUNNERS,
    AsyncRunner,
    CallableAggregateFunction,
    CallableAsyncFunction,
    CallableScalarFunction,
    CallableTableFunction,
    FunctionRunner,
    RowFunction,
    RowTakingAggregate,
)

GENERAL = "general"
PANDAS = "pandas"


class UserDefinedFunctionWrapper:
    """A function with its types, as udf() and its kin make it. Called with expressions, it gives an expression."""

    def __init__(
        self,
        function: Any,
        kind: str,
        result_types: Sequence[DataType | str],
        *,
        input_types: Sequence[DataType | str] | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
        func_type: str = GENERAL,
        plain: Any = None,
    ) -> None:
        self.function = function
        self.kind = kind
        self.result_types = tuple(result_types)
        self.input_types = None if input_types is None else tuple(input_types)
        self.deterministic = function.is_deterministic() if deterministic is None else deterministic
        self.name = name or _name_of(function if plain is None else plain)
        self.func_type = func_type
        self.aliases: tuple[str, ...] = ()
        if plain is not None and inspect.isfunction(plain):
            functools.update_wrapper(self, plain)

    def __call__(self, *args: object) -> object:
        """Return the call of this function with expressions as operands."""
        from penstock.sql.table_api.calls import call

        return call(self, *args)

    def _runner(self) -> FunctionRunner:
        if isinstance(self.function, AsyncScalarFunction):
            return AsyncRunner(self.function)
        return RUNNERS[self.kind](self.function)

    def alias(self, *alias_names: str) -> UserDefinedFunctionWrapper:
        """Name the columns of the result, for map, flat_map and aggregate."""
        self.aliases = alias_names
        return self

    def taking_row(self, names: Sequence[str]) -> UserDefinedFunctionWrapper:
        """Return the function for all columns of a table, which it takes as one row."""
        kind = RowTakingAggregate if self.kind == "AGGREGATE" else RowFunction
        return UserDefinedFunctionWrapper(
            kind(self.function, tuple(names), self.func_type == PANDAS),
            self.kind,
            self.result_types,
            deterministic=self.deterministic,
            name=self.name,
            func_type=self.func_type,
        )

    def as_user_function(self, name: str) -> UserFunction:
        """Return the function as catalogs keep it."""
        results = tuple(map(_type_of, self.result_types))
        names = None
        if self.kind in {"TABLE", "TABLE_AGGREGATE"} and len(results) == 1:
            (only,) = results
            if isinstance(only, RowType):
                names, results = tuple(only.field_names()), tuple(only.field_types())
        return UserFunction(
            name=name,
            kind=self.kind,
            function=self._runner(),
            result_types=results,
            input_types=None
            if self.input_types is None
            else tuple(map(_type_of, self.input_types)),
            names=names,
            deterministic=self.deterministic,
            pandas=self.func_type == PANDAS,
        )


def udf(
    f: Callable[..., Any] | ScalarFunction | AsyncScalarFunction | type | None = None,
    input_types: object = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
) -> Any:
    """Make a scalar function of a callable or a ScalarFunction; also a decorator.

    `func_type` pandas: it takes and returns pandas.Series.

    >>> from penstock.table import DataTypes
    >>> @udf(result_type=DataTypes.BIGINT())
    ... def add(a, b):
    ...     return a + b
    >>> add.name
    'add'
    """
    if func_type not in {GENERAL, PANDAS}:
        raise ArgumentError(f"invalid func_type {func_type!r}", hint="use 'general' or 'pandas'")
    if f is None:
        return functools.partial(
            udf,
            input_types=input_types,
            result_type=result_type,
            deterministic=deterministic,
            name=name,
            func_type=func_type,
        )
    if result_type is None:
        raise ArgumentError(
            "a scalar function needs a result_type", hint="such as result_type=DataTypes.BIGINT()"
        )
    function = _instance(f)
    made: ScalarFunction | AsyncScalarFunction
    if inspect.iscoroutinefunction(function):
        made = CallableAsyncFunction(function)
    elif isinstance(function, ScalarFunction | AsyncScalarFunction):
        made = function
    elif isinstance(function, UserDefinedFunction):
        raise ArgumentTypeError(f"{_name_of(function)} is not a ScalarFunction")
    else:
        made = CallableScalarFunction(function)
    return UserDefinedFunctionWrapper(
        made,
        "SCALAR",
        [result_type],
        input_types=_types(input_types),
        deterministic=deterministic,
        name=name,
        func_type=func_type,
        plain=f,
    )


def udtf(
    f: Callable[..., Any] | TableFunction | type | None = None,
    input_types: object = None,
    result_types: object = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Make a table function of a callable or a TableFunction; also a decorator. `result_types`: one per column."""
    if f is None:
        return functools.partial(
            udtf,
            input_types=input_types,
            result_types=result_types,
            deterministic=deterministic,
            name=name,
        )
    results = _types(result_types)
    if not results:
        raise ArgumentError(
            "a table function needs result_types", hint="such as result_types=[DataTypes.STRING()]"
        )
    function = _instance(f)
    if isinstance(function, UserDefinedFunction) and not isinstance(function, TableFunction):
        raise ArgumentTypeError(f"{_name_of(function)} is not a TableFunction")
    made = function if isinstance(function, TableFunction) else CallableTableFunction(function)
    return UserDefinedFunctionWrapper(
        made,
        "TABLE",
        results,
        input_types=_types(input_types),
        deterministic=deterministic,
        name=name,
        plain=f,
    )


def udaf(
    f: Callable[..., Any] | AggregateFunction | type | None = None,
    input_types: object = None,
    result_type: DataType | str | None = None,
    accumulator_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
) -> Any:
    """Make an aggregate function of an AggregateFunction, or with `func_type` pandas of a callable over Series; also a decorator."""
    if f is None:
        return functools.partial(
            udaf,
            input_types=input_types,
            result_type=result_type,
            accumulator_type=accumulator_type,
            deterministic=deterministic,
            name=name,
            func_type=func_type,
        )
    function = _instance(f)
    if isinstance(function, AggregateFunction):
        made: AggregateFunction = function
    elif func_type == PANDAS and callable(function):
        made = CallableAggregateFunction(function)
    else:
        raise ArgumentTypeError(
            f"{_name_of(function)} is not an AggregateFunction",
            hint="derive a class from AggregateFunction, or pass func_type='pandas'",
        )
    return UserDefinedFunctionWrapper(
        made,
        "AGGREGATE",
        [made.get_result_type() if result_type is None else result_type],
        input_types=_types(input_types),
        deterministic=deterministic,
        name=name,
        plain=f,
    )


def udtaf(
    f: object = None,  # noqa: ARG001 - PyFlink's parameters
    input_types: object = None,  # noqa: ARG001
    result_type: object = None,  # noqa: ARG001
    accumulator_type: object = None,  # noqa: ARG001
    deterministic: bool | None = None,  # noqa: ARG001
    name: str | None = None,  # noqa: ARG001
    func_type: str = GENERAL,  # noqa: ARG001
) -> NoReturn:
    """Reject: table aggregate functions are not implemented."""
    raise UnsupportedOperationError(
        "table aggregate functions are not implemented",
        hint="use ROW_NUMBER() OVER (...) for the top rows per group",
    )


def as_user_function(name: str, function: object) -> UserFunction:
    """Return what a program registers as catalogs keep it."""
    if isinstance(function, UserDefinedFunctionWrapper):
        return function.as_user_function(name)
    function = _instance(function)
    if isinstance(function, AggregateFunction):
        made: UserDefinedFunctionWrapper = udaf(function)
        return made.as_user_function(name)
    raise ArgumentTypeError(
        f"{function!r} is not a user-defined function",
        hint="wrap it: udf(f, result_type=DataTypes.BIGINT())",
    )


def import_function(name: str, where: str) -> UserFunction:
    """Return the function that 'module.attribute' names."""
    module_name, _, attribute = where.rpartition(".")
    if not module_name:
        raise ArgumentError(
            f"'{where}' does not name a Python function", hint="write 'module.function'"
        )
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, attribute)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(
            f"cannot import function '{where}'",
            detail=f"{type(error).__name__}: {error}",
            hint="it must be on the Python path of this program: add_python_file, or PYTHONPATH",
        ) from error
    return as_user_function(name, found)


def _instance(function: object) -> Any:
    if inspect.isclass(function) and issubclass(function, UserDefinedFunction):
        return function()
    if isinstance(function, UserDefinedFunction) or callable(function):
        return function
    raise ArgumentTypeError(
        f"{function!r} is not a function",
        hint="pass a callable, or an instance of a ScalarFunction class",
    )


def _types(given: Any) -> tuple[DataType | str, ...] | None:
    if given is None:
        return None
    if isinstance(given, DataType | str):
        return (given,)
    return tuple(given)


def _type_of(given: DataType | str) -> DataType:
    if isinstance(given, DataType):
        return given
    from penstock.sql.parse.types import data_type_of

    return data_type_of(given)


def _name_of(function: object) -> str:
    if isinstance(function, functools.partial):
        return _name_of(function.func)
    return getattr(function, "__name__", type(function).__name__)


__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]
