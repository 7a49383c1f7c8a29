"""The grammar of ORDER BY, and of the windows of OVER and WINDOW."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.parse.parts import ExpressionPart
from penstock.sql.parse.stream import TokenStream


class WindowParser:
    """Reads the items of ORDER BY, and windows: partitions, order, frame."""

    def __init__(self, tokens: TokenStream, expressions: ExpressionPart) -> None:
        self._tokens = tokens
        self._expressions = expressions

    def order_items(self) -> list[Any]:
        """Parse the items of ORDER BY."""
        return self._tokens.separated(self._order_item)

    def _order_item(self) -> exp.Ordered:
        start = self._tokens.index
        value = self._expressions.expression()
        descending = self._tokens.accept_any("ASC", "DESC") == "DESC"
        nulls_first = None
        if self._tokens.accept("NULLS"):
            nulls_first = self._tokens.expect_any("FIRST", "LAST") == "FIRST"
        node = exp.Ordered(this=value, desc=descending, nulls_first=nulls_first)
        return self._tokens.placed(node, start)

    def window_specification(self) -> dict[str, Any]:
        """Parse the window specification of OVER."""
        parts: dict[str, Any] = {}
        if self._tokens.at_name() and self._tokens.current.upper not in ("ROWS", "RANGE"):
            parts["alias"] = self._tokens.identifier()
        if self._tokens.accept("PARTITION", "BY"):
            parts["partition_by"] = self._tokens.separated(self._expressions.expression)
        if self._tokens.accept("ORDER", "BY"):
            parts["order"] = exp.Order(expressions=self.order_items())
        if (kind := self._tokens.accept_any("ROWS", "RANGE")) is not None:
            parts["spec"] = self._frame(kind)
        return parts

    def _frame(self, kind: str) -> exp.WindowSpec:
        start = self._tokens.index - 1
        if self._tokens.accept("BETWEEN"):
            first = self._bound()
            self._tokens.expect("AND")
            last = self._bound()
        else:
            first, last = self._bound(), ("CURRENT ROW", None)
        node = exp.WindowSpec(
            kind=kind, start=first[0], start_side=first[1], end=last[0], end_side=last[1]
        )
        return self._tokens.placed(node, start)

    def _bound(self) -> tuple[Any, str | None]:
        if self._tokens.accept("CURRENT", "ROW"):
            return "CURRENT ROW", None
        value = "UNBOUNDED" if self._tokens.accept("UNBOUNDED") else self._expressions.sum()
        return value, self._tokens.expect_any("PRECEDING", "FOLLOWING")
