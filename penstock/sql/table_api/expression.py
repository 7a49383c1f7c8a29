"""Expression: the expressions of the Table API. Each one is a piece of SQL to be, which tables put into their queries.

Most methods are functions of SQL under another name: see `methods`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.not_implemented import not_implemented
from penstock.sql.table_api.literals import literal
from penstock.sql.table_api.units import (
    JsonExistsOnError,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
)
from penstock.sql.types import DataType

_INT_MAX = 2**31 - 1


class ExpressionScope(Protocol):
    """Context in which expressions are rendered as SQL: functions and tables of the program, windows of the query."""

    def function(self, function: object) -> str:
        """The name under which the query may call a function of the program."""

    def table(self, table: Any) -> str:
        """The name under which the query may read a table of the program."""

    def over(self, alias: str) -> str:
        """Return the OVER clause for a window with this alias."""

    def window_property(self, alias: str, which: str) -> str | None:
        """The start, end, rowtime or proctime of a group window; None if the alias is none of a window."""


class Expression:
    """A column, a constant, or a call over others."""

    __slots__ = ()

    def sql(self, scope: ExpressionScope) -> str:
        """Return the piece of SQL."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.sql(_Shown())

    def __repr__(self) -> str:
        return str(self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "an expression has no truth value before the query runs",
            hint="combine conditions with &, | and ~ instead of and, or and not",
        )

    # Operators

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _operator("=", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _operator("<>", self, other)

    def __lt__(self, other: object) -> Expression:
        return _operator("<", self, other)

    def __le__(self, other: object) -> Expression:
        return _operator("<=", self, other)

    def __gt__(self, other: object) -> Expression:
        return _operator(">", self, other)

    def __ge__(self, other: object) -> Expression:
        return _operator(">=", self, other)

    def __add__(self, other: object) -> Expression:
        return _operator("+", self, other)

    def __radd__(self, other: object) -> Expression:
        return _operator("+", other, self)

    def __sub__(self, other: object) -> Expression:
        return _operator("-", self, other)

    def __rsub__(self, other: object) -> Expression:
        return _operator("-", other, self)

    def __mul__(self, other: object) -> Expression:
        return _operator("*", self, other)

    def __rmul__(self, other: object) -> Expression:
        return _operator("*", other, self)

    def __truediv__(self, other: object) -> Expression:
        return _operator("/", self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return _operator("/", other, self)

    def __mod__(self, other: object) -> Expression:
        return _operator("%", self, other)

    def __rmod__(self, other: object) -> Expression:
        return _operator("%", other, self)

    def __pow__(self, other: object) -> Expression:
        return TemplateExpression("POWER({}, {})", self, other)

    def __and__(self, other: object) -> Expression:
        return _operator("AND", self, other)

    def __rand__(self, other: object) -> Expression:
        return _operator("AND", other, self)

    def __or__(self, other: object) -> Expression:
        return _operator("OR", self, other)

    def __ror__(self, other: object) -> Expression:
        return _operator("OR", other, self)

    def __invert__(self) -> Expression:
        return TemplateExpression("(NOT {})", self)

    def __neg__(self) -> Expression:
        return TemplateExpression("(- {})", self)

    def __getitem__(self, index: Any) -> Expression:
        return self.at(index)

    # Names and types

    def alias(self, name: str, *extra_names: str) -> Expression:
        """Name the column; a call of a table function may give several."""
        return AliasExpression(self, (name, *extra_names))

    def cast(self, data_type: DataType | str) -> Expression:
        """Convert, or fail."""
        return CastExpression("CAST", self, data_type)

    def try_cast(self, data_type: DataType | str) -> Expression:
        """Convert, or give NULL."""
        return CastExpression("TRY_CAST", self, data_type)

    @property
    def asc(self) -> Expression:
        """Sort by this, the lowest first."""
        return TemplateExpression("{} ASC", self)

    @property
    def desc(self) -> Expression:
        """Sort by this, the highest first."""
        return TemplateExpression("{} DESC", self)

    def get(self, name_or_index: str | int) -> Expression:
        """Take a field of a row, by its name or position."""
        if isinstance(name_or_index, str):
            return TemplateExpression("({})." + quoted_name(name_or_index), self)
        raise ArgumentTypeError(
            "only access to row fields by name is supported", hint="write get('name')"
        )

    def at(self, index: Any) -> Expression:
        """Take an element of an array (from 1), or the value of a key."""
        return TemplateExpression("{}[{}]", self, index)

    # Conditions

    def between(self, lower_bound: object, upper_bound: object) -> Expression:
        """Whether this is not below one and not above the other."""
        return TemplateExpression("({} BETWEEN {} AND {})", self, lower_bound, upper_bound)

    def not_between(self, lower_bound: object, upper_bound: object) -> Expression:
        """Whether this is below one or above the other."""
        return TemplateExpression("({} NOT BETWEEN {} AND {})", self, lower_bound, upper_bound)

    def in_(self, first_element_or_table: object, *remaining_elements: object) -> Expression:
        """Whether this is one of some values, or of those of a table with one column."""
        if hasattr(first_element_or_table, "execute_insert"):
            return InTableExpression(self, first_element_or_table)
        elements = (first_element_or_table, *remaining_elements)
        return TemplateExpression(
            f"({{}} IN ({', '.join(['{}'] * len(elements))}))", self, *elements
        )

    def then(self, if_true: Any, if_false: object) -> Expression:
        """Give one value where this is TRUE, else another."""
        return TemplateExpression("(CASE WHEN {} THEN {} ELSE {} END)", self, if_true, if_false)

    def like(self, pattern: object = None, escape: object = None) -> Expression:
        """Whether this goes with a pattern of SQL."""
        if escape is not None:
            return TemplateExpression("({} LIKE {} ESCAPE {})", self, pattern, escape)
        return TemplateExpression("({} LIKE {})", self, pattern)

    def similar(self, pattern: object = None) -> Expression:
        """Whether this goes with a regular expression of SQL."""
        return TemplateExpression("({} SIMILAR TO {})", self, pattern)

    # Text with syntax of its own

    def trim(self, character: object = None) -> Expression:
        """Take characters off both ends."""
        return TemplateExpression(
            "TRIM(BOTH {} FROM {})", " " if character is None else character, self
        )

    def trim_leading(self, character: object = None) -> Expression:
        """Take characters off the start."""
        return TemplateExpression(
            "TRIM(LEADING {} FROM {})", " " if character is None else character, self
        )

    def trim_trailing(self, character: object = None) -> Expression:
        """Take characters off the end."""
        return TemplateExpression(
            "TRIM(TRAILING {} FROM {})", " " if character is None else character, self
        )

    def position(self, haystack: object = None) -> Expression:
        """Return where this is in a text, from 1; 0 if it is not."""
        return TemplateExpression("POSITION({} IN {})", self, haystack)

    def overlay(self, new_string: object, starting: object, length: object = None) -> Expression:
        """Put a text in the place of a part of this one."""
        if length is None:
            return TemplateExpression("OVERLAY({} PLACING {} FROM {})", self, new_string, starting)
        return TemplateExpression(
            "OVERLAY({} PLACING {} FROM {} FOR {})", self, new_string, starting, length
        )

    def concat(self, other: object) -> Expression:
        """Put two arrays, or texts, one after another."""
        return TemplateExpression("CONCAT({}, {})", self, other)

    # Time

    def extract(self, time_interval_unit: TimeIntervalUnit) -> Expression:
        """Take a part of a time."""
        return TemplateExpression(f"EXTRACT({_unit(time_interval_unit)} FROM {{}})", self)

    def floor(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression:
        """Round down, a number or a time to a unit."""
        if time_interval_unit is None:
            return TemplateExpression("FLOOR({})", self)
        return TemplateExpression(f"FLOOR({{}} TO {_unit(time_interval_unit)})", self)

    def ceil(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression:
        """Round up, a number or a time to a unit."""
        if time_interval_unit is None:
            return TemplateExpression("CEIL({})", self)
        return TemplateExpression(f"CEIL({{}} TO {_unit(time_interval_unit)})", self)

    @property
    def start(self) -> Expression:
        """The start of a window."""
        return WindowPropertyExpression(self, "start")

    @property
    def end(self) -> Expression:
        """The end of a window."""
        return WindowPropertyExpression(self, "end")

    @property
    def rowtime(self) -> Expression:
        """The event time: of a window, or of a stream that becomes a table."""
        return WindowPropertyExpression(self, "rowtime")

    @property
    def proctime(self) -> Expression:
        """The processing time: of a window, or of a stream that becomes a table."""
        return WindowPropertyExpression(self, "proctime")

    # Aggregates

    @property
    def distinct(self) -> Expression:
        """Let an aggregate take equal values once."""
        if not isinstance(self, AggregateExpression):
            raise ArgumentError(
                f"{self} is not an aggregate",
                hint="write col('a').count.distinct, or table.distinct()",
            )
        return AggregateExpression(self.function, self.operands, distinct=True)

    def list_agg(self, separator: object = None) -> Expression:
        """Put texts of a group together, with a separator between them."""
        operands = (self,) if separator is None else (self, separator)
        return AggregateExpression("LISTAGG", operands)

    def percentile(self, percentage: object, frequency: object = None) -> Expression:
        """Return the percentile of a group."""
        more = () if frequency is None else (frequency,)
        return AggregateExpression("PERCENTILE", (self, percentage, *more))

    def over(self, alias: Any) -> Expression:
        """Aggregate over a window that over_window declares."""
        return OverExpression(
            self, alias.name if isinstance(alias, ColumnExpression) else str(alias)
        )

    # JSON

    def is_json(self, json_type: JsonType | None = None) -> Expression:
        """Whether this is JSON, of a kind."""
        kind = "" if json_type is None else f" {json_type.name}"
        return TemplateExpression(f"({{}} IS JSON{kind})", self)

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Expression:
        """Whether JSON has something at a path."""
        end = "" if on_error is None else f" {on_error.name} ON ERROR"
        return TemplateExpression(f"JSON_EXISTS({{}}, {literal(path)}{end})", self)

    def json_value(
        self,
        path: str,
        returning_type: DataType | None = None,
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: object = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: object = None,
    ) -> Expression:
        """Take a value out of JSON."""
        kind = "" if returning_type is None else f" RETURNING {returning_type.nullable()}"
        ends = ""
        for way, default, when in (
            (on_empty, default_on_empty, "EMPTY"),
            (on_error, default_on_error, "ERROR"),
        ):
            value = f"DEFAULT {as_expression(default)}" if way.name == "DEFAULT" else way.name
            ends += f" {value} ON {when}"
        return TemplateExpression(f"JSON_VALUE({{}}, {literal(path)}{kind}{ends})", self)

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Expression:
        """Take a part out of JSON, as JSON."""
        wrapper = {
            "WITHOUT_ARRAY": "WITHOUT ARRAY WRAPPER",
            "CONDITIONAL_ARRAY": "WITH CONDITIONAL ARRAY WRAPPER",
            "UNCONDITIONAL_ARRAY": "WITH UNCONDITIONAL ARRAY WRAPPER",
        }[wrapping_behavior.name]
        empty, error = on_empty.name.replace("_", " "), on_error.name.replace("_", " ")
        end = f" {wrapper} {empty} ON EMPTY {error} ON ERROR"
        return TemplateExpression(f"JSON_QUERY({{}}, {literal(path)}{end})", self)

    # Not supported in SQL

    flatten = not_implemented(
        "fields of a row are selected by name", hint="use get('name') for each field"
    )
    as_argument = not_implemented("only positional arguments are supported in SQL calls")


class TemplateExpression(Expression):
    """SQL with places for other expressions."""

    __slots__ = ("parts", "text")

    def __init__(self, text: str, *parts: Any) -> None:
        self.text = text
        self.parts = tuple(map(as_expression, parts))

    def sql(self, scope: ExpressionScope) -> str:
        """Return the text with all parts in their places."""
        pieces = self.text.split("{}")
        shown = [part.sql(scope) for part in self.parts]
        return pieces[0] + "".join(
            part + piece for part, piece in zip(shown, pieces[1:], strict=True)
        )


class ColumnExpression(Expression):
    """A column by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def sql(self, scope: ExpressionScope) -> str:
        """Return the name."""
        return "*" if self.name == "*" else quoted_name(self.name)


class ValueExpression(Expression):
    """A constant."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any, data_type: DataType | None = None) -> None:
        self.value = value
        self.type = data_type

    def sql(self, scope: ExpressionScope) -> str:
        """Return the literal."""
        text = literal(self.value)
        return text if self.type is None else f"CAST({text} AS {self.type.nullable()})"


class RowCountExpression(Expression):
    """A number of rows, as the bound of a window over rows; None is unbounded, 0 the current row."""

    __slots__ = ("by_rows", "count")

    def __init__(self, count: int | None, by_rows: bool = True) -> None:
        self.count = count
        self.by_rows = by_rows

    def sql(self, scope: ExpressionScope) -> str:
        """Return the number."""
        return "UNBOUNDED" if self.count is None else str(self.count)


class AliasExpression(Expression):
    """An expression with the name of its column."""

    __slots__ = ("expression", "names")

    def __init__(self, expression: Expression, names: tuple[str, ...]) -> None:
        self.expression = expression
        self.names = names

    def sql(self, scope: ExpressionScope) -> str:
        """Return the expression AS its name."""
        return f"{self.expression.sql(scope)} AS {quoted_name(self.names[0])}"


class CastExpression(Expression):
    """CAST or TRY_CAST."""

    __slots__ = ("expression", "type", "word")

    def __init__(self, word: str, expression: Expression, data_type: DataType | str) -> None:
        self.word = word
        self.expression = expression
        self.type = data_type.nullable() if isinstance(data_type, DataType) else data_type

    def sql(self, scope: ExpressionScope) -> str:
        """Return the cast."""
        return f"{self.word}({self.expression.sql(scope)} AS {self.type})"


class AggregateExpression(Expression):
    """A call of an aggregate function."""

    __slots__ = ("distinct_", "function", "operands")

    def __init__(self, function: str, operands: Sequence[Any], distinct: bool = False) -> None:
        self.function = function
        self.operands = tuple(map(as_expression, operands))
        self.distinct_ = distinct

    def sql(self, scope: ExpressionScope) -> str:
        """Return the call."""
        word = "DISTINCT " if self.distinct_ else ""
        shown = ", ".join(each.sql(scope) for each in self.operands)
        return f"{self.function}({word}{shown})"


class UserFunctionExpression(Expression):
    """A call of a function of the program."""

    __slots__ = ("function", "operands")

    def __init__(self, function: Any, operands: Sequence[Any]) -> None:
        self.function = function
        self.operands = tuple(map(as_expression, operands))

    def sql(self, scope: ExpressionScope) -> str:
        """Return the call, by the name that the query knows the function by."""
        shown = ", ".join(each.sql(scope) for each in self.operands)
        return f"{scope.function(self.function)}({shown})"


class OverExpression(Expression):
    """An aggregate over a window."""

    __slots__ = ("alias_", "expression")

    def __init__(self, expression: Expression, alias: str) -> None:
        self.expression = expression
        self.alias_ = alias

    def sql(self, scope: ExpressionScope) -> str:
        """Return the aggregate with its window."""
        return f"{self.expression.sql(scope)} OVER ({scope.over(self.alias_)})"


class WindowPropertyExpression(Expression):
    """The start, end, rowtime or proctime of a window; of a column, that it is a time attribute."""

    __slots__ = ("expression", "which")

    def __init__(self, expression: Expression, which: str) -> None:
        self.expression = expression
        self.which = which

    def sql(self, scope: ExpressionScope) -> str:
        """Return the auxiliary function of the window."""
        name = self.expression.name if isinstance(self.expression, ColumnExpression) else ""
        found = scope.window_property(name, self.which)
        if found is None:
            raise ArgumentError(
                f"'{name}' is not a window, so it has no {self.which}",
                hint="name the window: Tumble.over(...).on(...).alias('w')",
            )
        return found


class InTableExpression(Expression):
    """Whether a value is in a table."""

    __slots__ = ("expression", "table")

    def __init__(self, expression: Expression, table: Any) -> None:
        self.expression = expression
        self.table = table

    def sql(self, scope: ExpressionScope) -> str:
        """Return IN with a subquery."""
        return f"({self.expression.sql(scope)} IN (SELECT * FROM {scope.table(self.table)}))"  # noqa: S608


class _Shown:
    """The scope of an expression that is only looked at."""

    def function(self, function: object) -> str:
        return str(getattr(function, "name", function))

    def table(self, table: Any) -> str:
        return "a table"

    def over(self, alias: str) -> str:
        return quoted_name(alias)

    def window_property(self, alias: str, which: str) -> str | None:
        return f"{which}({quoted_name(alias)})"


def as_expression(value: object) -> Expression:
    """Return an expression as it is, anything else as a constant."""
    return value if isinstance(value, Expression) else ValueExpression(value)


def quoted_name(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _operator(word: str, left: object, right: object) -> Expression:
    return TemplateExpression(f"({{}} {word} {{}})", left, right)


def _unit(unit: object) -> str:
    name: str = getattr(unit, "name", str(unit))
    return name


# At the end, as it needs the classes above: it gives expressions the methods that are functions of SQL.
from penstock.sql.table_api import methods  # noqa: E402, F401
