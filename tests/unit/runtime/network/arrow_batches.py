"""A second kind of batch: Arrow columns."""

from __future__ import annotations

import pyarrow as pa

from penstock.runtime.network.buffers import register_kind
from penstock.runtime.records import Batch

_TIMES, _KEYS = "\0timestamps", "\0keys"


class Column:
    """A key selector for columns: their values, without a call per record."""

    def __init__(self, name):
        self.name = name


class ArrowBatch(Batch):
    """A table; timestamps are one more column, and so are keys while they travel."""

    __slots__ = ("keys", "table", "timestamps")

    TAG = 0xFF  # what an Arrow stream begins with

    def __init__(self, table, timestamps=None, keys=None):
        self.table = table
        self.timestamps = timestamps
        self.keys = keys

    @classmethod
    def of(cls, timestamps=None, **columns):
        return cls(pa.table(columns), timestamps)

    def __len__(self):
        return self.table.num_rows

    def extract(self, function):
        if isinstance(function, Column):
            return self.table[function.name].to_pylist()
        return [function(row) for row in self.table.to_pylist()]

    def with_keys(self, keys):
        return ArrowBatch(self.table, self.timestamps, keys)

    def _take(self, indexes):
        def pick(column):
            return None if column is None else [column[index] for index in indexes]

        return ArrowBatch(self.table.take(indexes), pick(self.timestamps), pick(self.keys))

    def scatter(self, targets, pending):
        for target in set(targets):
            part = self._take([n for n, each in enumerate(targets) if each == target])
            if target in pending:
                pending[target].extend(part)
            else:
                pending[target] = part
        return set(targets)

    def slice(self, start, stop=None, step=1):
        return self._take(list(range(len(self)))[start:stop:step])

    def copy(self):
        return ArrowBatch(self.table, self.timestamps, self.keys)

    def extend(self, other):
        def joined(ours, theirs):
            return None if ours is None else [*ours, *theirs]

        self.table = pa.concat_tables([self.table, other.table])
        self.timestamps = joined(self.timestamps, other.timestamps)
        self.keys = joined(self.keys, other.keys)
        return len(self)

    def isolated(self):
        return ArrowBatch(self.table, self.timestamps)

    def apply_types(self, apply):
        """Columns are typed already."""

    def encode(self):
        table = self.table
        for name, column in ((_TIMES, self.timestamps), (_KEYS, self.keys)):
            if column is not None:
                table = table.append_column(name, pa.array(column))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    @classmethod
    def decode(cls, payload):
        table = pa.ipc.open_stream(payload).read_all()
        found = []
        for name in (_TIMES, _KEYS):
            there = name in table.column_names
            found.append(table[name].to_pylist() if there else None)
            table = table.drop_columns([name]) if there else table
        return cls(table, *found)


register_kind(ArrowBatch)
