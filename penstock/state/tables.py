"""State as tables: rows to iterate over, and pandas, Arrow and Spark frames."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from penstock.checkpoint.handles import StateChain
from penstock.common.user_types import Key
from penstock.runtime.operators.windows.window import MERGING_SET
from penstock.state import columns as types_of
from penstock.state.catalog import StateInfo
from penstock.state.chains import ChainReader
from penstock.state.databases import Databases

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa

_BATCH = 4096
_SHOWN = 10


class TablePart(Protocol):
    """Rows that are read together: of one state file or chain, or in memory. Sent to Spark tasks."""

    def rows(self, databases: Databases) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows."""

    def may_hold(self, key: Key) -> bool:
        """Whether it may contain rows of a key."""


@dataclass(frozen=True, slots=True)
class KeyedPart:
    """One table of one subtask's keyed state, or one file of it: `chain` is what is read, `whole` the whole chain."""

    reader: ChainReader
    chain: StateChain
    whole: StateChain
    operator: str
    state: StateInfo
    explode: bool
    merging: bool = False

    def may_hold(self, key: Key) -> bool:
        """Whether the chain covers the key's group."""
        return self.reader.may_hold(self.chain, key)

    def rows(self, databases: Databases) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows: key, namespace if there is one, and `value_columns`."""
        entries = self.reader.entries(
            self.chain, self.state.table, databases, self.operator, ttl=self.state.ttl
        )
        actual = self._actual_windows(databases) if self.merging else {}
        make, scoped = _value_maker(self.state, explode=self.explode), self.state.scope is not None
        for key, namespace, value in entries:
            if actual:
                namespace = actual.get((key, namespace), namespace)  # noqa: PLW2901
            head = (key, namespace) if scoped else (key,)
            for values in make(value):
                yield head + values

    def _actual_windows(self, databases: Databases) -> dict[tuple[Any, Any], Any]:
        """For merging windows, return the current windows by the state windows under which contents are stored."""
        entries = self.reader.entries(self.whole, MERGING_SET, databases, self.operator)
        return {
            (key, kept_under): window
            for key, _, in_flight in entries
            for window, kept_under in in_flight.items()
        }


@dataclass(frozen=True, slots=True)
class TimerPart:
    """The timers of one domain in one subtask."""

    reader: ChainReader
    chain: StateChain
    operator: str
    table: str

    def may_hold(self, key: Key) -> bool:
        """Whether the chain covers the key's group."""
        return self.reader.may_hold(self.chain, key)

    def rows(self, databases: Databases) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows: key, namespace, timestamp, domain."""
        domain = self.table.rpartition("/")[2]
        for key, (namespace, timestamp), _ in self.reader.entries(
            self.chain, self.table, databases, self.operator
        ):
            yield key, namespace, timestamp, domain


@dataclass(frozen=True, slots=True)
class RowsPart:
    """Rows in memory."""

    held: tuple[tuple[Any, ...], ...]

    def may_hold(self, key: Key) -> bool:
        """Return True: it is unknown."""
        return True

    def rows(self, databases: Databases) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows."""
        return iter(self.held)


def value_columns(state: StateInfo, *, explode: bool) -> tuple[str, ...]:
    """Return the columns after key and namespace."""
    names: tuple[str, ...] = ("value",)
    if explode and state.kind in {"list", "contents"}:
        names = ("position", "value")
    elif explode and state.kind == "map":
        names = ("map_key", "value")
    return (*names, "last_access") if state.ttl else names


def _value_maker(state: StateInfo, *, explode: bool) -> Callable[[Any], Any]:
    """Return the function from a stored value to the values of its rows."""
    makers = _EXPLODED if explode else _WHOLE
    make: Callable[[Any], Any] = makers.get((state.kind, state.ttl), _PLAIN[state.ttl])
    return make


def _newest(pairs: Any) -> int:
    return max((timestamp for _, timestamp in pairs), default=0)


def _each_element(contents: Any) -> Any:
    if isinstance(contents, list):
        return enumerate(contents)
    return ((None, contents),)  # one reduced or aggregated value


_PLAIN: dict[bool, Callable[[Any], Any]] = {
    False: lambda value: ((value,),),
    True: lambda stored: ((stored[0], stored[1]),),
}
_WHOLE: dict[tuple[str, bool], Callable[[Any], Any]] = {
    ("list", True): lambda stored: (([value for value, _ in stored], _newest(stored)),),
    ("map", True): lambda stored: (
        ({key: item[0] for key, item in stored.items()}, _newest(stored.values())),
    ),
}
_EXPLODED: dict[tuple[str, bool], Callable[[Any], Any]] = {
    ("list", False): enumerate,
    ("list", True): lambda stored: ((at, *pair) for at, pair in enumerate(stored)),
    ("map", False): lambda stored: stored.items(),
    ("map", True): lambda stored: ((key, *pair) for key, pair in stored.items()),
    ("contents", False): _each_element,
}


class SnapshotTable:
    """Rows with named columns, read again by every iteration. A row is a named tuple."""

    def __init__(self, name: str, names: Sequence[str], read: Callable[..., Iterator[Any]]) -> None:
        self.name = name
        self.columns = tuple(names)
        self._source = read
        self._row: Any = namedtuple("Row", self.columns, rename=True)  # type: ignore[misc]  # noqa: PYI024

    def _read(self) -> Iterator[Any]:
        return self._source()

    def __iter__(self) -> Iterator[Any]:
        return map(self._row._make, self._read())

    def head(self, count: int = _SHOWN) -> list[Any]:
        """Return the first rows."""
        return list(islice(self, count))

    def count(self) -> int:
        """Return the number of rows; reads all of them."""
        return sum(1 for _ in self._read())

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas frame. Values are the Python objects of the state."""
        import pandas as pd

        rows = list(self._read())
        return pd.DataFrame(
            {
                name: _series(pd, [row[index] for row in rows])
                for index, name in enumerate(self.columns)
            },
            columns=list(self.columns),
        )

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table. Types are those that the program declared, else they are inferred from the values."""
        import pyarrow as pa

        rows = list(self._read())
        profile = self.profile()
        for row in rows:
            profile.add(row)
        types = profile.types()
        schema = arrow_schema(self.columns, types)
        batches = to_batches(iter(rows), types, schema)
        return pa.Table.from_batches(batches, schema)

    def profile(self) -> types_of.ColumnProfile:
        """Return an empty profile of the columns."""
        return types_of.ColumnProfile([None] * len(self.columns), [False] * len(self.columns))

    def __repr__(self) -> str:
        rows = self.head(_SHOWN + 1)
        more = "\n..." if len(rows) > _SHOWN else ""
        return f"{self.name}\n{format_rows(self.columns, rows[:_SHOWN])}{more}"


class KeyedStateTable(SnapshotTable):
    """One state of an operator as a table.

    The columns are `key`, then `window` (or another namespace) if the state has one, then `value`, then `last_access` (epoch
    milliseconds) if the state has a TTL. Exploded lists have a column `position`, exploded maps a column `map_key`.
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        parts: Sequence[TablePart],
        databases: Databases,
        state: StateInfo | None = None,
        *,
        explode: bool = False,
    ) -> None:
        super().__init__(name, names, iter)
        self.state = state
        self.parts = tuple(parts)
        self._explode = explode
        self._databases = databases

    def _read(self) -> Iterator[tuple[Any, ...]]:
        return self._rows(self.parts)

    def _rows(self, parts: Sequence[TablePart]) -> Iterator[tuple[Any, ...]]:
        for part in parts:
            yield from part.rows(self._databases)

    def get(self, key: Key) -> list[Any]:
        """Return the rows of a key. Only the state of the subtask that owns the key is read."""
        parts = [part for part in self.parts if part.may_hold(key)]
        return [self._row._make(row) for row in self._rows(parts) if row[0] == key]

    def to_spark(self, session: Any = None) -> Any:
        """Return a Spark DataFrame. The rows are read by Spark tasks, one per file or chain of the state.

        If the program declared no types, they are inferred by reading the values once, also in tasks.
        """
        from penstock.spark.state_frames import read_frame

        return read_frame(session, self.parts, self.reader())

    def reader(self) -> SnapshotTableReader:
        """Return what reads parts of the table in Spark's tasks."""
        return SnapshotTableReader(self.columns, self._declared())

    def profile(self) -> types_of.ColumnProfile:
        """Return an empty profile of the columns, with the types that the program declared."""
        return types_of.ColumnProfile(*self._declared())

    def _declared(self) -> tuple[list[types_of.Type | None], list[bool]]:
        types: list[types_of.Type | None] = [None] * len(self.columns)
        maps = [False] * len(self.columns)
        if self.state is None or "value" not in self.columns:
            return types, maps
        value, kind = self.columns.index("value"), self.state.kind
        schema = self.state.schema
        wanted = None if schema is None else types_of.declared(schema.shape)
        exploded = self._explode and kind in {"list", "map"}
        if exploded and wanted is not None and wanted[0] in {"list", "map"}:
            types[value] = wanted[-1]
            if kind == "map":
                types[self.columns.index("map_key")] = wanted[1]
        elif not exploded:
            types[value] = wanted
            maps[value] = kind == "map"
        return types, maps


@dataclass(frozen=True, slots=True)
class SnapshotTableReader:
    """Reads parts of a table in Spark tasks."""

    columns: tuple[str, ...]
    declared: tuple[list[types_of.Type | None], list[bool]]

    def look_at(self, parts: Sequence[TablePart]) -> types_of.ColumnProfile:
        """Return the column types of some parts."""
        profile = types_of.ColumnProfile(*self.declared)
        with Databases() as databases:
            for part in parts:
                for row in part.rows(databases):
                    profile.add(row)
        return profile

    def schema(
        self, profiles: Sequence[types_of.ColumnProfile]
    ) -> tuple[list[types_of.Type], pa.Schema]:
        """Return the types that can hold all values, as Penstock's and as Arrow's."""
        merged = types_of.ColumnProfile(*self.declared)
        for profile in profiles:
            merged.merge(profile)
        types = merged.types()
        return types, arrow_schema(self.columns, types)

    def batches(
        self, parts: Sequence[TablePart], types: list[types_of.Type]
    ) -> Iterator[pa.RecordBatch]:
        """Read some parts as Arrow batches."""
        schema = arrow_schema(self.columns, types)
        with Databases() as databases:
            for part in parts:
                yield from to_batches(part.rows(databases), types, schema)


def arrow_schema(names: Sequence[str], types: Sequence[types_of.Type]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    import pyarrow as pa

    pairs = zip(names, types, strict=True)
    return pa.schema([pa.field(name, types_of.to_arrow(kind)) for name, kind in pairs])


def to_batches(
    rows: Iterator[tuple[Any, ...]], types: Sequence[types_of.Type], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Turn rows into Arrow batches."""
    import pyarrow as pa

    while some := list(islice(rows, _BATCH)):
        arrays = [
            pa.array([types_of.plain(row[at], kind) for row in some], schema.field(at).type)
            for at, kind in enumerate(types)
        ]
        yield pa.record_batch(arrays, schema=schema)


def format_rows(names: Sequence[str], rows: Sequence[Any], limit: int = 60) -> str:
    """Return rows as aligned text."""

    def cell(value: Any) -> str:
        text = value if isinstance(value, str) else repr(value)
        text = text.replace("\n", "\\n")
        return text if len(text) <= limit else text[: limit - 3] + "..."

    lines = [list(names), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _series(pd: Any, values: list[Any]) -> Any:
    """Return a column: of numbers or text if all values have one type, else of objects."""
    import numpy as np

    kinds = {type(value) for value in values}
    if len(kinds) <= 1 and kinds <= {bool, int, float, str}:
        return pd.Series(values)
    objects = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):  # one by one: numpy would make rows of lists
        objects[index] = value
    return pd.Series(objects)
