"""The grammar of the schema in CREATE TABLE: columns, watermarks, keys; and of options and LIKE."""

from __future__ import annotations

from typing import Any

from penstock.sql.parse.expressions import ExpressionParser
from penstock.sql.parse.statements import ColumnDefinition, LikeClause, WatermarkDefinition
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.type_names import TypeParser

_LIKE_FEATURES = (
    "ALL",
    "CONSTRAINTS",
    "DISTRIBUTION",
    "GENERATED",
    "METADATA",
    "OPTIONS",
    "PARTITIONS",
    "WATERMARKS",
)


class ColumnParser:
    """Reads columns of tables."""

    def __init__(
        self, tokens: TokenStream, types: TypeParser, expressions: ExpressionParser
    ) -> None:
        self._tokens = tokens
        self._types = types
        self._expressions = expressions

    def options(self) -> dict[str, str]:
        """Take ('key' = 'value', ...)."""
        self._tokens.expect("(")
        options: dict[str, str] = {}
        if self._tokens.accept(")"):
            return options
        while True:
            token = self._tokens.current
            key = self._option_key()
            if key in options:
                raise self._tokens.error_at(token, f"duplicate option '{key}'")
            self._tokens.expect("=")
            options[key] = self._tokens.string("a value in quotes")
            if not self._tokens.accept(","):
                break
        self._tokens.expect(")")
        return options

    def _option_key(self) -> str:
        if self._tokens.current.kind is not TokenKind.STRING and self._tokens.at_name():
            self._tokens.wanted("a key in quotes")
            raise self._tokens.failure(
                f"put keys and values in quotes: '{self._tokens.current.text}' = '...'"
            )
        return self._tokens.string("a key in quotes")

    def like_clause(self) -> LikeClause:
        """Take table (INCLUDING ALL ...), of which LIKE is taken."""
        table = self._tokens.path("the name of a table")
        choices: list[tuple[str, str]] = []
        if self._tokens.accept("("):
            while not self._tokens.accept(")"):
                how = self._tokens.expect_any("INCLUDING", "EXCLUDING", "OVERWRITING")
                choices.append((how, self._tokens.expect_any(*_LIKE_FEATURES)))
        return LikeClause(table=table, options=tuple(choices))

    def table_elements(self) -> dict[str, Any]:
        """Take the columns, the watermark and the key of a table in parentheses."""
        self._tokens.expect("(")
        columns: list[ColumnDefinition] = []
        parts: dict[str, Any] = {}
        if not self._tokens.looking_at(")"):
            self._element(columns, parts)
            while self._tokens.accept(","):
                self._element(columns, parts)
        self._tokens.expect(")")
        self._inline_key(columns, parts)
        parts["columns"] = tuple(columns)
        return parts

    def _inline_key(self, columns: list[ColumnDefinition], parts: dict[str, Any]) -> None:
        marked = tuple(column.name for column in columns if column.primary_key)
        if marked and "primary_key" in parts:
            raise self._tokens.error_at(self._tokens.previous, "duplicate primary key")
        if len(marked) > 1:
            raise self._tokens.error_at(
                self._tokens.previous,
                "duplicate primary key",
                f"write PRIMARY KEY ({', '.join(marked)}) NOT ENFORCED for a key of several columns",
            )
        if marked:
            parts["primary_key"] = marked

    def _element(self, columns: list[ColumnDefinition], parts: dict[str, Any]) -> None:
        token = self._tokens.current
        if self._at_watermark():
            watermark = self._watermark()
            if "watermark" in parts:
                raise self._tokens.error_at(token, "a table can have only one watermark")
            parts["watermark"] = watermark
        elif self._at_key():
            key = self._key()
            if "primary_key" in parts:
                raise self._tokens.error_at(token, "duplicate primary key")
            parts["primary_key"] = key
        else:
            column = self._column_definition()
            if any(column.name == other.name for other in columns):
                raise self._tokens.error_at(token, f"duplicate column '{column.name}'")
            columns.append(column)

    def _at_watermark(self) -> bool:
        return self._tokens.looking_at("WATERMARK", "FOR")

    def _at_key(self) -> bool:
        return self._tokens.looking_at("PRIMARY", "KEY") or (
            self._tokens.looking_at("CONSTRAINT")
            and self._tokens.ahead(2).upper in ("PRIMARY", "UNIQUE")
        )

    def _watermark(self) -> WatermarkDefinition:
        self._tokens.skip(2)
        names = [str(self._tokens.identifier("a column").this)]
        while self._tokens.accept("."):
            names.append(str(self._tokens.any_identifier("a field").this))
        self._tokens.expect("AS")
        start = self._tokens.index
        expression = self._expressions.expression()
        text = self._tokens.text_between(start, self._tokens.index)
        return WatermarkDefinition(
            column=".".join(names), expression=expression, expression_text=text
        )

    def _key(self) -> tuple[str, ...]:
        if self._tokens.accept("CONSTRAINT"):
            self._tokens.name("a constraint")
        if self._tokens.looking_at("UNIQUE"):
            raise self._tokens.error_at(
                self._tokens.current, "UNIQUE is not supported", "use PRIMARY KEY"
            )
        self._tokens.expect("PRIMARY", "KEY")
        names = self._tokens.in_parentheses(
            lambda: self._tokens.separated(
                lambda: str(self._tokens.any_identifier("a column").this)
            )
        )
        self._not_enforced()
        return tuple(names)

    def _not_enforced(self) -> None:
        if self._tokens.accept("NOT", "ENFORCED"):
            return
        token = (
            self._tokens.current if self._tokens.looking_at("ENFORCED") else self._tokens.previous
        )
        raise self._tokens.error_at(
            token,
            "a primary key cannot be enforced: the data is not owned by the table",
            "add NOT ENFORCED",
        )

    def _column_definition(self) -> ColumnDefinition:
        name = str(self._tokens.any_identifier("a column").this)
        parts: dict[str, Any] = {"name": name}
        if self._tokens.accept("AS"):
            start = self._tokens.index
            parts["kind"] = "computed"
            parts["expression"] = self._expressions.expression()
            parts["expression_text"] = self._tokens.text_between(start, self._tokens.index)
        elif self._tokens.current.upper in (",", ")"):
            parts["kind"] = "physical"  # CREATE TABLE t (a, b) AS SELECT ...
        else:
            parts.update(self._typed_column())
        if self._tokens.accept("COMMENT"):
            parts["comment"] = self._tokens.string()
        return ColumnDefinition(**parts)

    def _typed_column(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"kind": "physical", "type": self._types.data_type()}
        if self._tokens.accept("METADATA"):
            parts["kind"] = "metadata"
            if self._tokens.accept("FROM"):
                parts["metadata_key"] = self._tokens.string("a key in quotes")
            parts["virtual"] = self._tokens.accept("VIRTUAL")
            return parts
        constraint = self._tokens.accept("CONSTRAINT")
        if constraint:
            self._tokens.name("a constraint")
        if self._tokens.accept("PRIMARY", "KEY"):
            self._not_enforced()
            parts["primary_key"] = True
        elif constraint:
            raise self._tokens.failure()
        if self._tokens.accept("NOT", "NULL"):
            parts["type"] = parts["type"].not_null()
        return parts

    # --- ALTER TABLE ADD and MODIFY -----------------------------------------------------------

    def schema_changes(self, word: str) -> list[tuple[Any, ...]]:
        """Parse the changes after ALTER TABLE t ADD or MODIFY (`word`): one change, or several in parentheses."""
        if self._tokens.accept("("):
            changes = self._tokens.separated(lambda: self._schema_change(word))
            self._tokens.expect(")")
            return changes
        self._tokens.accept("COLUMN")
        return [self._schema_change(word)]

    def _schema_change(self, word: str) -> tuple[Any, ...]:
        if self._at_watermark():
            return (f"{word} WATERMARK", self._watermark())
        if self._at_key():
            return (f"{word} PRIMARY KEY", self._key())
        if self._tokens.looking_at("PARTITION"):
            raise self._tokens.error_at(self._tokens.current, "ADD PARTITION is not supported")
        token = self._tokens.current
        column = self._column_definition()
        if column.kind == "physical" and column.type is None:
            raise self._tokens.error_at(token, f"column '{column.name}' has no type")
        place, after = None, None
        if self._tokens.accept("FIRST"):
            place = "FIRST"
        elif self._tokens.accept("AFTER"):
            place, after = "AFTER", self._tokens.name("a column")
        fields = {slot: getattr(column, slot) for slot in ColumnDefinition.__slots__}
        fields.update(position=place, after=after)
        return (f"{word} COLUMN", ColumnDefinition(**fields))
