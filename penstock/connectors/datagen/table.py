"""The factory of `datagen`, its options, and its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.catalogs.tables import PhysicalColumn
from penstock.common.user_types import Position
from penstock.connectors.base.source import ReadLimits, SourceReader
from penstock.connectors.datagen.columns import (
    ColumnRule,
    inner_types,
    make_column,
    options_of_type,
)
from penstock.connectors.datagen.source import DataGeneratorSource, GeneratorReader
from penstock.errors import ConfigurationError
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.options import (
    Option,
    OptionGroup,
    checked,
    duration,
    flag,
    number,
    text,
)
from penstock.sql.connector.providers import ScanProvider, TableContext, TableFactory
from penstock.sql.types import DataType

DEFAULT_RATE: Final = 10_000
ROWS_AT_ONCE: Final = 8_192
KINDS: Final = ("random", "sequence")
OPTIONS: Final = (
    number("rows-per-second", "Rows per second.", default=DEFAULT_RATE),
    number("number-of-rows", "Number of rows; without it, the table has no end."),
    number("scan.parallelism", "Parallelism of the source."),
)
_FIELD_OPTIONS: Final = (
    text("kind", "How values are made.", default="random", choices=KINDS),
    number("start", "First value of a sequence."),
    number("end", "Last value of a sequence; it ends the table."),
    Option("min", "Least random value.", float),
    Option("max", "Greatest random value.", float),
    duration("max-past", "How far random timestamps lie in the past, at most.", default_ms=0),
    number("length", "Length of strings and collections."),
    Option("null-rate", "Part of the values that are NULL.", float, 0.0),
    flag("var-len", "Whether strings have any length up to 'length'."),
)


class DatagenFactory(TableFactory):
    """Generated rows, read only: random values and sequences."""

    identifier = "datagen"
    options = OPTIONS
    option_groups = (OptionGroup("fields.#.", "Options of a column.", _FIELD_OPTIONS),)

    def source(self, context: TableContext) -> DatagenScan:
        """Return the table."""
        return DatagenScan(context)


class DatagenScan:
    """Generates rows at a rate, unbounded or up to a number of rows."""

    def __init__(self, context: TableContext) -> None:
        name = str(context.table.path)
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        options = checked(context.options, OPTIONS, name, free=("fields.",))
        self._rate = options["rows-per-second"]
        self._parallelism = options["scan.parallelism"]
        self._rules = {
            each.name: _rule(each.name, each.type, context.options, name, f"fields.{each.name}.")
            for each in columns
        }
        _refuse_unknown_fields(context.options, set(self._rules), name)
        self._names: Sequence[str] = list(self._rules)
        self._count = _count(options["number-of-rows"], list(self._rules.values()))

    def changelog_mode(self) -> ChangelogMode:
        """Rows are inserts."""
        return ChangelogMode.insert_only()

    def bounded(self) -> bool:
        """Whether a number of rows or a sequence ends it."""
        return self._count is not None

    def apply_projection(self, names: Sequence[str]) -> None:
        """Make these columns only."""
        self._names = list(names)

    def scan(self) -> ScanProvider:
        """Return a source of frames."""
        seeds = {name: at for at, name in enumerate(self._rules)}
        rules = [(self._rules[name], seeds[name]) for name in self._names]
        source = FramesSource(FrameMaker(rules), self._count, self._rate)
        types = tuple(self._rules[name].type for name in self._names)
        return ScanProvider(
            source, tuple(self._names), types, columnar=True, parallelism=self._parallelism
        )


class FrameMaker:
    """Makes the rows with given numbers."""

    def __init__(self, rules: Sequence[tuple[ColumnRule, int]]) -> None:
        self._rules = list(rules)

    def __call__(self, index: int) -> pl.DataFrame:
        """Make one row."""
        return self.frame([index])

    def frame(self, indexes: Sequence[int]) -> pl.DataFrame:
        """Make rows."""
        numbers = np.asarray(indexes, dtype=np.uint64)
        made = [make_column(rule, seed, numbers) for rule, seed in self._rules]
        if not made:
            return pl.DataFrame(height=len(numbers))
        return pl.DataFrame(made)


class FramesSource(DataGeneratorSource):
    """A generator whose records come in frames."""

    carries_timestamps = False

    def __init__(self, maker: FrameMaker, count: int | None, rate: int) -> None:
        super().__init__(maker, count, rate_per_second=rate)
        self.maker = maker

    def create_reader(self) -> SourceReader:
        """Create a reader of frames."""
        return _FramesReader(self)


class _FramesReader(GeneratorReader):
    def __init__(self, source: FramesSource) -> None:
        super().__init__(source)
        self._maker = source.maker

    def read(self, split: Any, position: Position, limits: ReadLimits) -> Any:
        """Give more rows at once than generators of objects do."""
        wide = limits.with_batch_size(max(limits.batch_size, ROWS_AT_ONCE))
        return super().read(split, position, wide)

    def compute(self, indexes: list[int]) -> tuple[Any, None]:
        """Return a frame."""
        return self._maker.frame(indexes), None


def _rule(name: str, kind: DataType, given: dict[str, str], table: str, prefix: str) -> ColumnRule:
    inner = inner_types(kind)
    own = {
        key.removeprefix(prefix): value
        for key, value in given.items()
        if key.startswith(prefix)
        and not key.startswith(tuple(f"{prefix}{each}." for each in inner))
    }
    named = _options_of(kind, own.get("kind", "random").lower())
    known = [option for option in _FIELD_OPTIONS if option.name in named]
    options = {
        **{option.name: option.default for option in _FIELD_OPTIONS},
        **checked(own, known, f"{table}, column {prefix.split('.')[1]}"),
    }
    sequence = options["kind"] == "sequence"
    if sequence and (options["start"] is None or options["end"] is None):
        raise ConfigurationError(
            f"table {table}: a sequence needs a start and an end",
            hint=f"add '{prefix}start' and '{prefix}end'",
        )
    return ColumnRule(
        name,
        kind,
        options["kind"],
        options["start"],
        options["end"],
        options["min"],
        options["max"],
        options["max-past"],
        options["length"],
        options["null-rate"],
        options["var-len"],
        tuple(_rule(each, of, given, table, f"{prefix}{each}.") for each, of in inner.items()),
    )


def _options_of(kind: DataType, made: str) -> tuple[str, ...]:
    """Return the names of the options that have an effect on a column of a type."""
    if made == "sequence":
        return "kind", "start", "end"
    return "kind", "null-rate", *options_of_type(kind)


def _refuse_unknown_fields(given: dict[str, str], names: set[str], table: str) -> None:
    known = [text(f"fields.{name}", "") for name in sorted(names)]
    prefixes = tuple(f"fields.{name}." for name in names)
    for key in given:
        if key.startswith("fields.") and not key.startswith(prefixes):
            checked({key.rpartition(".")[0]: ""}, known, table)


def _count(rows: int | None, rules: list[ColumnRule]) -> int | None:
    ends = [
        rule.end - rule.start + 1
        for rule in rules
        if rule.kind == "sequence" and rule.start is not None and rule.end is not None
    ]
    if rows is not None:
        ends.append(rows)
    return min(ends, default=None)
