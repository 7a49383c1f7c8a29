"""The grammar of JSON functions: JSON_VALUE(document, path RETURNING INT NULL ON EMPTY), JSON_OBJECT(KEY k VALUE v ABSENT ON NULL)."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.parse.parts import ExpressionPart
from penstock.sql.parse.special_calls import CallReader, type_name
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.trees import (
    JsonArray,
    JsonExists,
    JsonObject,
    JsonQuery,
    JsonValue,
)
from penstock.sql.parse.type_names import TypeParser


class JsonCallParser:
    """Reads calls of JSON functions."""

    def __init__(self, tokens: TokenStream, types: TypeParser, expressions: ExpressionPart) -> None:
        self._tokens = tokens
        self._types = types
        self._expressions = expressions

    def readers(self) -> dict[str, CallReader]:
        """Return what reads the operands, by function."""
        return {
            "JSON_EXISTS": self._exists,
            "JSON_VALUE": self._value,
            "JSON_QUERY": self._query,
            "JSON_OBJECT": self._object,
            "JSON_OBJECTAGG": self._object,
            "JSON_ARRAY": self._array,
            "JSON_ARRAYAGG": self._array,
        }

    def _document_and_path(self) -> tuple[Any, Any]:
        self._tokens.expect("(")
        document = self._expressions.expression()
        self._tokens.expect(",")
        self._tokens.accept_any("LAX", "STRICT")
        return document, self._expressions.expression()

    def _exists(self, name: object, start: int) -> object:
        document, path = self._document_and_path()
        on_error = self._tokens.accept_any("TRUE", "FALSE", "UNKNOWN", "ERROR")
        if on_error:
            self._tokens.expect("ON", "ERROR")
        self._tokens.expect(")")
        return self._tokens.placed(JsonExists(this=document, path=path, on_error=on_error), start)

    def _value(self, name: object, start: int) -> Any:
        document, path = self._document_and_path()
        returning = (
            type_name(self._tokens, self._types) if self._tokens.accept("RETURNING") else None
        )
        handlers: dict[str, Any] = {}
        while (word := self._tokens.accept_any("NULL", "ERROR", "DEFAULT")) is not None:
            handler = self._expressions.expression() if word == "DEFAULT" else word
            self._tokens.expect("ON")
            event = self._tokens.expect_any("EMPTY", "ERROR")
            if f"on_{event.lower()}" in handlers:
                raise self._tokens.error_at(self._tokens.previous, f"duplicate ON {event}")
            handlers[f"on_{event.lower()}"] = handler
        self._tokens.expect(")")
        node = JsonValue(this=document, path=path, returning=returning, **handlers)
        return self._tokens.placed(node, start)

    def _query(self, name: object, start: int) -> object:
        document, path = self._document_and_path()
        returning = (
            type_name(self._tokens, self._types) if self._tokens.accept("RETURNING") else None
        )
        wrapper = self._wrapper()
        handlers: dict[str, Any] = {}
        while (word := self._tokens.accept_any("NULL", "ERROR", "EMPTY")) is not None:
            if word == "EMPTY":
                word += " " + self._tokens.expect_any("ARRAY", "OBJECT")
            self._tokens.expect("ON")
            handlers[f"on_{self._tokens.expect_any('EMPTY', 'ERROR').lower()}"] = word
        self._tokens.expect(")")
        node = JsonQuery(this=document, path=path, returning=returning, wrapper=wrapper, **handlers)
        return self._tokens.placed(node, start)

    def _wrapper(self) -> str | None:
        if self._tokens.accept("WITHOUT"):
            self._tokens.accept("ARRAY")
            self._tokens.expect("WRAPPER")
            return "WITHOUT"
        if self._tokens.accept("WITH"):
            kind = self._tokens.accept_any("CONDITIONAL", "UNCONDITIONAL") or "UNCONDITIONAL"
            self._tokens.accept("ARRAY")
            self._tokens.expect("WRAPPER")
            return kind
        return None

    def _object(self, name: Any, start: int) -> object:
        self._tokens.expect("(")
        pairs: list[Any] = []
        if self._tokens.current.upper != ")" and not self._at_on_null():
            pairs = self._tokens.separated(self._pair)
        on_null = self._on_null()
        self._tokens.expect(")")
        aggregate = str(name.this).upper() == "JSON_OBJECTAGG"
        node = JsonObject(expressions=pairs, on_null=on_null, aggregate=aggregate)
        return self._tokens.placed(node, start)

    def _pair(self) -> object:
        start = self._tokens.index
        if self._tokens.current.upper == "KEY" and self._tokens.ahead().upper not in (
            ":",
            "VALUE",
            ",",
        ):
            self._tokens.take()
        key = self._expressions.expression()
        if not self._tokens.accept_any("VALUE", ":", ","):
            raise self._tokens.failure()
        return self._tokens.placed(
            exp.Tuple(expressions=[key, self._expressions.expression()]), start
        )

    def _on_null(self) -> str | None:
        word = self._tokens.accept_any("NULL", "ABSENT")
        if word is not None:
            self._tokens.expect("ON", "NULL")
        return word

    def _array(self, name: Any, start: int) -> object:
        self._tokens.expect("(")
        values: list[Any] = []
        if self._tokens.current.upper != ")" and not self._at_on_null():
            values = self._tokens.separated(self._expressions.expression)
        on_null = self._on_null()
        self._tokens.expect(")")
        aggregate = str(name.this).upper() == "JSON_ARRAYAGG"
        node = JsonArray(expressions=values, on_null=on_null, aggregate=aggregate)
        return self._tokens.placed(node, start)

    def _at_on_null(self) -> bool:
        return (
            self._tokens.current.upper in ("NULL", "ABSENT") and self._tokens.ahead().upper == "ON"
        )
