"""The grammar of the schema in CREATE TABLE: columns, watermarks, keys; and of options and LIKE."""

from __future__ import annotations

from typing import Any

from penstock.sql.parse.queries import QueryParser
from penstock.sql.parse.statements import ColumnDefinition, LikeClause, WatermarkDefinition
from penstock.sql.parse.tokens import TokenKind

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


class ColumnParser(QueryParser):
    """Reads columns of tables."""

    def options(self) -> dict[str, str]:
        """Take ('key' = 'value', ...)."""
        self.expect("(")
        options: dict[str, str] = {}
        if self.accept(")"):
            return options
        while True:
            token = self.current
            key = self._option_key()
            if key in options:
                raise self.error_at(token, f"duplicate option '{key}'")
            self.expect("=")
            options[key] = self.string("a value in quotes")
            if not self.accept(","):
                break
        self.expect(")")
        return options

    def _option_key(self) -> str:
        if self.current.kind is not TokenKind.STRING and self.at_name():
            self.wanted("a key in quotes")
            raise self.failure(f"put keys and values in quotes: '{self.current.text}' = '...'")
        return self.string("a key in quotes")

    def like_clause(self) -> LikeClause:
        """Take table (INCLUDING ALL ...), of which LIKE is taken."""
        table = self.path("the name of a table")
        choices: list[tuple[str, str]] = []
        if self.accept("("):
            while not self.accept(")"):
                how = self.expect_any("INCLUDING", "EXCLUDING", "OVERWRITING")
                choices.append((how, self.expect_any(*_LIKE_FEATURES)))
        return LikeClause(table=table, options=tuple(choices))

    def table_elements(self) -> dict[str, Any]:
        """Take the columns, the watermark and the key of a table in parentheses."""
        self.expect("(")
        columns: list[ColumnDefinition] = []
        parts: dict[str, Any] = {}
        if not self.looking_at(")"):
            self._element(columns, parts)
            while self.accept(","):
                self._element(columns, parts)
        self.expect(")")
        self._inline_key(columns, parts)
        parts["columns"] = tuple(columns)
        return parts

    def _inline_key(self, columns: list[ColumnDefinition], parts: dict[str, Any]) -> None:
        marked = tuple(column.name for column in columns if column.primary_key)
        if marked and "primary_key" in parts:
            raise self.error_at(self.previous, "duplicate primary key")
        if len(marked) > 1:
            raise self.error_at(
                self.previous,
                "duplicate primary key",
                f"write PRIMARY KEY ({', '.join(marked)}) NOT ENFORCED for a key of several columns",
            )
        if marked:
            parts["primary_key"] = marked

    def _element(self, columns: list[ColumnDefinition], parts: dict[str, Any]) -> None:
        token = self.current
        if self._at_watermark():
            watermark = self._watermark()
            if "watermark" in parts:
                raise self.error_at(token, "a table can have only one watermark")
            parts["watermark"] = watermark
        elif self._at_key():
            key = self._key()
            if "primary_key" in parts:
                raise self.error_at(token, "duplicate primary key")
            parts["primary_key"] = key
        else:
            column = self._column_definition()
            if any(column.name == other.name for other in columns):
                raise self.error_at(token, f"duplicate column '{column.name}'")
            columns.append(column)

    def _at_watermark(self) -> bool:
        return self.looking_at("WATERMARK", "FOR")

    def _at_key(self) -> bool:
        return self.looking_at("PRIMARY", "KEY") or (
            self.looking_at("CONSTRAINT") and self.ahead(2).upper in ("PRIMARY", "UNIQUE")
        )

    def _watermark(self) -> WatermarkDefinition:
        self.index += 2
        names = [str(self.identifier("a column").this)]
        while self.accept("."):
            names.append(str(self.any_identifier("a field").this))
        self.expect("AS")
        start = self.index
        expression = self.expression()
        text = self.text_between(start, self.index)
        return WatermarkDefinition(
            column=".".join(names), expression=expression, expression_text=text
        )

    def _key(self) -> tuple[str, ...]:
        if self.accept("CONSTRAINT"):
            self.name("a constraint")
        if self.looking_at("UNIQUE"):
            raise self.error_at(self.current, "UNIQUE is not supported", "use PRIMARY KEY")
        self.expect("PRIMARY", "KEY")
        names = self.in_parentheses(
            lambda: self.separated(lambda: str(self.any_identifier("a column").this))
        )
        self._not_enforced()
        return tuple(names)

    def _not_enforced(self) -> None:
        if self.accept("NOT", "ENFORCED"):
            return
        token = self.current if self.looking_at("ENFORCED") else self.previous
        raise self.error_at(
            token,
            "a primary key cannot be enforced: the data is not owned by the table",
            "add NOT ENFORCED",
        )

    def _column_definition(self) -> ColumnDefinition:
        name = str(self.any_identifier("a column").this)
        parts: dict[str, Any] = {"name": name}
        if self.accept("AS"):
            start = self.index
            parts["kind"] = "computed"
            parts["expression"] = self.expression()
            parts["expression_text"] = self.text_between(start, self.index)
        elif self.current.upper in (",", ")"):
            parts["kind"] = "physical"  # CREATE TABLE t (a, b) AS SELECT ...
        else:
            parts.update(self._typed_column())
        if self.accept("COMMENT"):
            parts["comment"] = self.string()
        return ColumnDefinition(**parts)

    def _typed_column(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"kind": "physical", "type": self.data_type()}
        if self.accept("METADATA"):
            parts["kind"] = "metadata"
            if self.accept("FROM"):
                parts["metadata_key"] = self.string("a key in quotes")
            parts["virtual"] = self.accept("VIRTUAL")
            return parts
        constraint = self.accept("CONSTRAINT")
        if constraint:
            self.name("a constraint")
        if self.accept("PRIMARY", "KEY"):
            self._not_enforced()
            parts["primary_key"] = True
        elif constraint:
            raise self.failure()
        if self.accept("NOT", "NULL"):
            parts["type"] = parts["type"].not_null()
        return parts

    # --- ALTER TABLE ADD and MODIFY -----------------------------------------------------------

    def schema_changes(self, word: str) -> list[tuple[Any, ...]]:
        """Parse the changes after ALTER TABLE t ADD or MODIFY (`word`): one change, or several in parentheses."""
        if self.accept("("):
            changes = self.separated(lambda: self._schema_change(word))
            self.expect(")")
            return changes
        self.accept("COLUMN")
        return [self._schema_change(word)]

    def _schema_change(self, word: str) -> tuple[Any, ...]:
        if self._at_watermark():
            return (f"{word} WATERMARK", self._watermark())
        if self._at_key():
            return (f"{word} PRIMARY KEY", self._key())
        if self.looking_at("PARTITION"):
            raise self.error_at(self.current, "ADD PARTITION is not supported")
        token = self.current
        column = self._column_definition()
        if column.kind == "physical" and column.type is None:
            raise self.error_at(token, f"column '{column.name}' has no type")
        place, after = None, None
        if self.accept("FIRST"):
            place = "FIRST"
        elif self.accept("AFTER"):
            place, after = "AFTER", self.name("a column")
        fields = {slot: getattr(column, slot) for slot in ColumnDefinition.__slots__}
        fields.update(position=place, after=after)
        return (f"{word} COLUMN", ColumnDefinition(**fields))
