"""Random queries with bitmaps: built from columns, combined, aggregated over rows that come and go, in windows and in OVER. Results are text, which is all that PyFlink can read of them."""

from __future__ import annotations

import random
from collections.abc import Callable

_ID = "CAST(id AS INT)"


class BitmapQueries:
    """Makes random queries, of each kind one."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"bitmaps-{seed}")
        self.kinds: dict[str, Callable[[], str]] = {
            "bitmaps": self.functions,
            "bitmaps_of_groups": self.groups,
            "bitmaps_of_changes": self.changes,
            "bitmaps_of_bitmaps": self.nested,
            "bitmaps_in_windows": self.windows,
            "bitmaps_over": self.over,
            "bitmaps_as_keys": self.keys,
        }

    def _pick(self, *options: str) -> str:
        return self._rng.choice(options)

    def _numbers(self, *columns: str) -> str:
        parts = [self._pick(*columns, str(self._rng.randrange(-3, 9))) for _ in range(3)]
        return f"ARRAY[{', '.join(parts)}, {columns[0]}]"

    def _bitmap(self, *columns: str) -> str:
        built = f"BITMAP_BUILD({self._numbers(*columns)})"
        if self._rng.random() < 0.4:
            return built
        name = self._pick("AND", "OR", "XOR", "ANDNOT")
        return f"BITMAP_{name}({built}, BITMAP_BUILD({self._numbers(*columns)}))"

    def _shown(self, bitmap: str) -> str:
        return self._pick(
            f"CAST({bitmap} AS STRING)",
            f"BITMAP_TO_STRING({bitmap})",
            f"BITMAP_CARDINALITY({bitmap})",
            f"TO_BASE64(BITMAP_TO_BYTES({bitmap}))",
            f"CAST(BITMAP_TO_ARRAY({bitmap}) AS STRING)",
        )

    def _aggregate(self, number: str, bitmap: str) -> str:
        kind = self._pick("BUILD", "AND", "OR", "XOR")
        operand = number if kind == "BUILD" else bitmap
        if self._rng.random() < 0.3:
            return f"BITMAP_{kind}_CARDINALITY_AGG({operand})"
        return f"CAST(BITMAP_{kind}_AGG({operand}) AS STRING)"

    def _aggregates(self, number: str, bitmap: str) -> str:
        return ", ".join(f"{self._aggregate(number, bitmap)} AS a{at}" for at in range(3))

    def functions(self) -> str:
        """Functions of a row's columns."""
        columns = ", ".join(
            f"{self._shown(self._bitmap('i', 'si', 'n'))} AS b{at}" for at in range(3)
        )
        return f"SELECT n, {columns} FROM things"

    def groups(self) -> str:
        """Aggregates of rows that stay."""
        found = self._aggregates(self._pick(_ID, f"{_ID} - 20", "k"), self._bitmap(_ID, "k"))
        key = self._pick("k", "s")
        return f"SELECT {key}, {found} FROM orders GROUP BY {key}"

    def changes(self) -> str:
        """Aggregates of rows that go."""
        found = self._aggregates("amount", self._bitmap("sku", "amount"))
        if self._rng.random() < 0.3:
            return f"SELECT {found} FROM stock WHERE amount > 3"
        return f"SELECT place, {found} FROM stock GROUP BY place"

    def nested(self) -> str:
        """Aggregates of aggregates."""
        inner = f"SELECT k, s, BITMAP_BUILD_AGG({_ID}) AS b FROM orders GROUP BY k, s"
        found = self._aggregates("k", "b")
        return f"SELECT k, {found} FROM ({inner}) GROUP BY k"

    def windows(self) -> str:
        """Aggregates of windows."""
        size = f"INTERVAL '{self._rng.randrange(2, 9)}' SECOND"
        window = self._pick(
            f"TUMBLE(TABLE orders, DESCRIPTOR(ts), {size})",
            "HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
            f"SESSION(TABLE orders PARTITION BY k, DESCRIPTOR(ts), {size})",
        )
        found = self._aggregates(_ID, self._bitmap(_ID, "k"))
        return f"SELECT k, window_start, {found} FROM TABLE({window}) GROUP BY k, window_start, window_end"

    def over(self) -> str:
        """Aggregates of a row and those before it."""
        frame = self._pick(
            "",
            " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW",
        )
        kind = self._pick("BUILD", "AND", "OR", "XOR")
        operand = _ID if kind == "BUILD" else self._bitmap(_ID, "k")
        call = f"BITMAP_{kind}_AGG({operand}) OVER (PARTITION BY k ORDER BY ts{frame})"
        return f"SELECT id, CAST({call} AS STRING) AS b FROM orders"

    def keys(self) -> str:
        """Bitmaps that rows are grouped and joined by."""
        bitmap = f"BITMAP_BUILD(ARRAY[k, {self._rng.randrange(5)}])"
        if self._rng.random() < 0.5:
            inner = f"SELECT {bitmap} AS b, id FROM orders"
            return f"SELECT CAST(b AS STRING) AS b, COUNT(*) AS n, COUNT(DISTINCT b) AS d FROM ({inner}) GROUP BY b"
        one, other = (
            f"SELECT {bitmap} AS b, id FROM orders",
            f"SELECT {bitmap} AS b, iid FROM items",
        )
        return (
            f"SELECT x.id, y.iid FROM ({one}) AS x JOIN ({other}) AS y ON x.b = y.b WHERE x.id < 9"
        )


def bitmap_queries(rounds: int) -> list[tuple[str, str]]:
    """So many queries of each kind, with the names of their kinds."""
    made: dict[str, str] = {}
    for number in range(rounds):
        for kind, make in BitmapQueries(number).kinds.items():
            made.setdefault(make(), kind)
    return [(kind, query) for query, kind in made.items()]
