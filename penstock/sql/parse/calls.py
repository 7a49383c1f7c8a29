"""The grammar of calls: operands, DISTINCT, FILTER, OVER, and the functions whose operands are written with words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.parse.literals import UNITS
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import (
    DefaultArgument,
    Descriptor,
    JsonArray,
    JsonExists,
    JsonObject,
    JsonQuery,
    JsonValue,
    TableArgument,
    TypeName,
)
from penstock.sql.parse.type_names import TypeParser

# Functions that are called without parentheses.
NO_PARENTHESES = frozenset(
    [
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "CURRENT_ROW_TIMESTAMP",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "CURRENT_DATABASE",
        "CURRENT_CATALOG",
        "CURRENT_USER",
        "SESSION_USER",
        "SYSTEM_USER",
    ]
)

# Time units of EXTRACT, CEIL, FLOOR and TIMESTAMPDIFF.
TIME_UNITS = (
    *dict.fromkeys(UNITS.values()),
    "MILLENNIUM",
    "CENTURY",
    "DECADE",
    "ISODOW",
    "ISOYEAR",
    "DOW",
    "DOY",
    "EPOCH",
    "MILLISECOND",
    "MICROSECOND",
    "NANOSECOND",
)
_UNITS_OF_TSI = {f"SQL_TSI_{unit}": unit for unit in TIME_UNITS}


class CallParser(TypeParser):
    """Reads calls of functions. `ExpressionParser` has the rest of expressions."""

    def expression(self) -> Any:
        """Take an expression."""
        raise NotImplementedError

    def sum(self) -> Any:
        """Take an operand of a comparison."""
        raise NotImplementedError

    def subquery(self) -> Any:
        """Take a query in parentheses as an exp.Subquery without alias."""
        raise NotImplementedError

    def order_items(self) -> list[Any]:
        """Parse the items of ORDER BY."""
        raise NotImplementedError

    def window_specification(self) -> dict[str, Any]:
        """Parse the window specification of OVER."""
        raise NotImplementedError

    def table_name(self) -> Any:
        """Take the name of a table as an exp.Table."""
        raise NotImplementedError

    # --- ordinary calls -----------------------------------------------------------------------

    def call(self, parts: list[Any], start: int) -> Any:
        """Take the operands of a function whose name was taken, and what may follow them."""
        self.expect("(")
        return self._suffixed(self._called(parts, self._operands(), start), start)

    def _called(self, parts: list[Any], operands: list[Any], start: int) -> Any:
        node = self.placed(exp.Anonymous(this=str(parts[-1].this), expressions=operands), start)
        if len(parts) > 1:
            node.meta["path"] = tuple(str(part.this) for part in parts)
        return node

    def _operands(self) -> list[Any]:
        """Take operands up to the closing parenthesis."""
        if self.current.upper == "*" and self.ahead().upper == ")":
            star = self.placed(exp.Star(), self.index)
            self.index += 2
            return [star]
        if self.accept(")"):
            return []
        start = self.index
        distinct = self.current.upper == "DISTINCT"
        if distinct or self.current.upper == "ALL":
            self.take()
        operands = self.separated(self._operand)
        if self.accept("ORDER", "BY"):  # ARRAY_AGG(x ORDER BY y)
            order = exp.Order(expressions=self.order_items())
            operands[-1] = self.placed(exp.Order(this=operands[-1], **order.args), start)
        self.expect(")")
        if distinct:
            return [self.placed(exp.Distinct(expressions=operands), start)]
        return operands

    def _operand(self) -> Any:
        start = self.index
        if self.current.kind in (TokenKind.WORD, TokenKind.QUOTED) and self.ahead().upper == "=>":
            name = self.any_identifier()
            self.expect("=>")
            return self.placed(exp.Kwarg(this=name, expression=self._operand()), start)
        word = self.current.upper
        if word == "DEFAULT" and self.ahead().upper in (",", ")"):
            self.take()
            return self.placed(DefaultArgument(), start)
        if word == "DESCRIPTOR" and self.ahead().upper == "(":
            self.take()
            names = self.in_parentheses(lambda: self.separated(self.any_identifier))
            return self.placed(Descriptor(expressions=names), start)
        if word == "TABLE":
            self.take()
            relation = self.subquery() if self.current.upper == "(" else self.table_name()
            return self._table_argument(relation, start)
        if word in ("SELECT", "WITH", "VALUES"):
            self.wanted("an expression")
            raise self.failure("put a query in parentheses")
        operand = self.expression()
        if isinstance(operand, exp.Subquery) and self.looking_at("PARTITION", "BY"):
            return self._table_argument(operand, start)
        return operand

    def _table_argument(self, relation: Any, start: int) -> Any:
        partition, order = None, None
        if self.accept("PARTITION", "BY"):
            if self.current.upper == "(":
                partition = self.in_parentheses(lambda: self.separated(self.expression))
            else:
                partition = [self.expression()]  # more than one are in parentheses
        if self.accept("ORDER", "BY"):
            if self.current.upper == "(":
                order = exp.Order(expressions=self.in_parentheses(self.order_items))
            else:
                order = exp.Order(expressions=self.order_items()[:1])
        node = TableArgument(this=relation, partition_by=partition, order=order)
        return self.placed(node, start)

    def _suffixed(self, node: Any, start: int) -> Any:
        """Parse the clauses after a call: IGNORE NULLS, WITHIN GROUP, FILTER, OVER."""
        if self.current.upper in ("IGNORE", "RESPECT") and self.ahead().upper == "NULLS":
            kind = exp.IgnoreNulls if self.take().upper == "IGNORE" else exp.RespectNulls
            self.take()
            node = self.placed(kind(this=node), start)
        if self.looking_at("WITHIN", "GROUP"):
            self.index += 2
            self.expect("(")
            self.expect("ORDER", "BY")
            order = exp.Order(expressions=self.order_items())
            self.expect(")")
            node = self.placed(exp.WithinGroup(this=node, expression=order), start)
        if self.looking_at("FILTER", "("):
            self.index += 2
            self.expect("WHERE")
            where = exp.Where(this=self.expression())
            self.expect(")")
            node = self.placed(exp.Filter(this=node, expression=where), start)
        if self.current.upper == "OVER":
            self.take()
            node = self.placed(self._window(node), start)
        return node

    def _window(self, node: Any) -> exp.Window:
        if self.current.upper == "(":
            parts = self.in_parentheses(self.window_specification)
            return exp.Window(this=node, over="OVER", **parts)
        return exp.Window(this=node, over="OVER", alias=self.identifier("a window"))

    # --- functions with words between their operands ------------------------------------------

    def special_call(self) -> Any:
        """Take a call of a function with a grammar of its own, if the current word is its name."""
        word = self.current.upper
        parse = self._SPECIAL.get(word)
        openings = ("(", "[") if word in ("ARRAY", "MAP") else ("(",)
        if parse is None or self.ahead().upper not in openings:
            return None
        start = self.index
        name = self.any_identifier()
        node = parse(self, name, start)
        return self._suffixed(node, start)

    def _array_or_map(self, name: Any, start: int) -> Any:
        if self.current.upper == "(":
            if self.ahead().upper in ("SELECT", "WITH", "VALUES"):
                raise self.error_at(
                    self.tokens[start],
                    f"{name.this}(query) is not supported",
                    "use ARRAY_AGG or COLLECT in the query",
                )
            self.expect("(")
            return self._called([name], self._operands(), start)
        self.expect("[")
        values: list[Any] = []
        if not self.accept("]"):
            values = self.separated(self.expression)
            self.expect("]")
        return self._called([name], values, start)

    def _row(self, name: Any, start: int) -> Any:
        self.expect("(")
        if self.accept(")"):
            return self._called([name], [], start)
        values = self.separated(self._row_value)
        self.expect(")")
        return self._called([name], values, start)

    def _row_value(self) -> Any:
        start = self.index
        value = self.expression()
        if self.accept("AS"):
            alias = self.any_identifier()
            return self.placed(exp.Alias(this=value, alias=alias), start)
        return value

    def _cast(self, name: Any, start: int) -> Any:
        self.expect("(")
        value = self.expression()
        self.expect("AS")
        to = self.type_name()
        self.expect(")")
        kind = exp.TryCast if name.this.upper() == "TRY_CAST" else exp.Cast
        return self.placed(kind(this=value, to=to), start)

    def type_name(self) -> TypeName:
        """Take a type as a node."""
        start = self.index
        return self.placed(TypeName(this=self.data_type()), start)

    def _symbol(self) -> exp.Var:
        """Take a unit of time, as the word itself, as SQL_TSI_unit or in quotes."""
        token = self.current
        word = token.upper if token.kind is TokenKind.WORD else token.text.upper()
        unit = UNITS.get(word) or _UNITS_OF_TSI.get(word) or (word if word in TIME_UNITS else None)
        if unit is None or token.kind not in (TokenKind.WORD, TokenKind.STRING):
            self.wanted("a unit of time such as SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
            raise self.failure()
        self.take()
        return self.placed(exp.Var(this=unit), self.index - 1)

    def _extract(self, name: Any, start: int) -> Any:
        self.expect("(")
        unit = self._symbol()
        self.expect("FROM")
        value = self.expression()
        self.expect(")")
        return self.placed(exp.Extract(this=unit, expression=value), start)

    def _timestamp_arithmetic(self, name: Any, start: int) -> Any:
        self.expect("(")
        operands: list[Any] = [self._symbol()]
        while self.accept(","):
            operands.append(self.expression())
        self.expect(")")
        return self._called([name], operands, start)

    def _rounded(self, name: Any, start: int) -> Any:
        self.expect("(")
        operands = [self.expression()]
        if self.accept("TO"):
            operands.append(self._symbol())
        self.expect(")")
        return self._called([name], operands, start)

    def _trim(self, name: Any, start: int) -> Any:
        self.expect("(")
        place = self.current.upper
        characters = None
        if place in ("BOTH", "LEADING", "TRAILING"):
            self.take()
            if self.current.upper != "FROM":
                characters = self.expression()
            self.expect("FROM")
        else:
            first = self.expression()
            if not self.accept("FROM"):
                operands = [first]
                while self.accept(","):
                    operands.append(self.expression())
                self.expect(")")
                return self._called([name], operands, start)
            place, characters = "BOTH", first
        text = self.expression()
        self.expect(")")
        node = exp.Trim(this=text, position=place, expression=characters)
        return self.placed(node, start)

    def _position(self, name: Any, start: int) -> Any:
        self.expect("(")
        what = self.sum()
        if not self.accept_any("IN", ","):
            raise self.failure()
        operands = [what, self.expression()]
        if self.accept("FROM"):
            operands.append(self.expression())
        self.expect(")")
        return self._called([name], operands, start)

    def _substring(self, name: Any, start: int) -> Any:
        self.expect("(")
        operands = [self.expression()]
        if self.accept("FROM"):
            operands.append(self.expression())
            if self.accept("FOR"):
                operands.append(self.expression())
        else:
            while self.accept(","):
                operands.append(self.expression())
        self.expect(")")
        return self._called([name], operands, start)

    def _overlay(self, name: Any, start: int) -> Any:
        self.expect("(")
        operands = [self.expression()]
        if self.accept("PLACING"):
            operands.append(self.expression())
            self.expect("FROM")
            operands.append(self.expression())
            if self.accept("FOR"):
                operands.append(self.expression())
        else:
            while self.accept(","):
                operands.append(self.expression())
        self.expect(")")
        return self._called([name], operands, start)

    # --- JSON ---------------------------------------------------------------------------------

    def _document_and_path(self) -> tuple[Any, Any]:
        self.expect("(")
        document = self.expression()
        self.expect(",")
        self.accept_any("LAX", "STRICT")
        return document, self.expression()

    def _json_exists(self, name: Any, start: int) -> Any:
        document, path = self._document_and_path()
        on_error = self.accept_any("TRUE", "FALSE", "UNKNOWN", "ERROR")
        if on_error:
            self.expect("ON", "ERROR")
        self.expect(")")
        return self.placed(JsonExists(this=document, path=path, on_error=on_error), start)

    def _json_value(self, name: Any, start: int) -> Any:
        document, path = self._document_and_path()
        returning = self.type_name() if self.accept("RETURNING") else None
        handlers: dict[str, Any] = {}
        while (word := self.accept_any("NULL", "ERROR", "DEFAULT")) is not None:
            handler = self.expression() if word == "DEFAULT" else word
            self.expect("ON")
            event = self.expect_any("EMPTY", "ERROR")
            if f"on_{event.lower()}" in handlers:
                raise self.error_at(self.previous, f"duplicate ON {event}")
            handlers[f"on_{event.lower()}"] = handler
        self.expect(")")
        node = JsonValue(this=document, path=path, returning=returning, **handlers)
        return self.placed(node, start)

    def _json_query(self, name: Any, start: int) -> Any:
        document, path = self._document_and_path()
        returning = self.type_name() if self.accept("RETURNING") else None
        wrapper = self._json_wrapper()
        handlers: dict[str, Any] = {}
        while (word := self.accept_any("NULL", "ERROR", "EMPTY")) is not None:
            if word == "EMPTY":
                word += " " + self.expect_any("ARRAY", "OBJECT")
            self.expect("ON")
            handlers[f"on_{self.expect_any('EMPTY', 'ERROR').lower()}"] = word
        self.expect(")")
        node = JsonQuery(this=document, path=path, returning=returning, wrapper=wrapper, **handlers)
        return self.placed(node, start)

    def _json_wrapper(self) -> str | None:
        if self.accept("WITHOUT"):
            self.accept("ARRAY")
            self.expect("WRAPPER")
            return "WITHOUT"
        if self.accept("WITH"):
            kind = self.accept_any("CONDITIONAL", "UNCONDITIONAL") or "UNCONDITIONAL"
            self.accept("ARRAY")
            self.expect("WRAPPER")
            return kind
        return None

    def _json_object(self, name: Any, start: int) -> Any:
        self.expect("(")
        pairs: list[Any] = []
        if self.current.upper != ")" and not self._at_on_null():
            pairs = self.separated(self._json_pair)
        on_null = self._on_null()
        self.expect(")")
        aggregate = str(name.this).upper() == "JSON_OBJECTAGG"
        node = JsonObject(expressions=pairs, on_null=on_null, aggregate=aggregate)
        return self.placed(node, start)

    def _json_pair(self) -> Any:
        start = self.index
        if self.current.upper == "KEY" and self.ahead().upper not in (":", "VALUE", ","):
            self.take()
        key = self.expression()
        if not self.accept_any("VALUE", ":", ","):
            raise self.failure()
        return self.placed(exp.Tuple(expressions=[key, self.expression()]), start)

    def _on_null(self) -> str | None:
        word = self.accept_any("NULL", "ABSENT")
        if word is not None:
            self.expect("ON", "NULL")
        return word

    def _json_array(self, name: Any, start: int) -> Any:
        self.expect("(")
        values: list[Any] = []
        if self.current.upper != ")" and not self._at_on_null():
            values = self.separated(self.expression)
        on_null = self._on_null()
        self.expect(")")
        aggregate = str(name.this).upper() == "JSON_ARRAYAGG"
        node = JsonArray(expressions=values, on_null=on_null, aggregate=aggregate)
        return self.placed(node, start)

    def _at_on_null(self) -> bool:
        return self.current.upper in ("NULL", "ABSENT") and self.ahead().upper == "ON"

    _SPECIAL: ClassVar[dict[str, Callable[..., Any]]] = {
        "ARRAY": _array_or_map,
        "MAP": _array_or_map,
        "ROW": _row,
        "CAST": _cast,
        "TRY_CAST": _cast,
        "EXTRACT": _extract,
        "TIMESTAMPADD": _timestamp_arithmetic,
        "TIMESTAMPDIFF": _timestamp_arithmetic,
        "CEIL": _rounded,
        "CEILING": _rounded,
        "FLOOR": _rounded,
        "TRIM": _trim,
        "POSITION": _position,
        "SUBSTRING": _substring,
        "OVERLAY": _overlay,
        "JSON_EXISTS": _json_exists,
        "JSON_VALUE": _json_value,
        "JSON_QUERY": _json_query,
        "JSON_OBJECT": _json_object,
        "JSON_OBJECTAGG": _json_object,
        "JSON_ARRAY": _json_array,
        "JSON_ARRAYAGG": _json_array,
    }
