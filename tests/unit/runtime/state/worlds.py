"""One operator's keyed state over epochs, crashes and restores, with either backend and real checkpoint storage."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from penstock.checkpoint.state_io import CheckpointStateIO
from penstock.graph.key_groups import key_group_range
from penstock.runtime.state.backends import read_chain
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.runtime.state.rocksdb.local_directory import LocalDirectory, remove
from penstock.runtime.state.rocksdb.settings import RocksDBSettings
from penstock.testing import ManualClock

BACKENDS = ("hashmap", "rocksdb")
MAX_PARALLELISM = 16
_attempts = itertools.count()


class World:
    """`backend` is the instance in use; `chain` is what the last manifest names, `pending` what no manifest names yet."""

    def __init__(self, kind, directory, *, inline_threshold=0, **settings):
        self.kind = kind
        self.directory = directory
        self.settings = RocksDBSettings(local_dirs=(f"{directory}/local",), **settings)
        self.io = CheckpointStateIO(f"{directory}/storage", inline_threshold)
        self.clock = ManualClock(1_000)
        self.chain = None
        self.checkpoint_id = 0
        self.backend = self.create()

    def create(self, subtask=0, kind=None):
        if (kind or self.kind) == "hashmap":
            return HashMapKeyedStateBackend(self.clock, "counter", read_chain)
        place = LocalDirectory(self.settings.local_dirs, "job", "operator", subtask)
        return RocksDBKeyedStateBackend(
            self.clock, place, self.settings, MAX_PARALLELISM, "counter", read_chain
        )

    def write(self, backend=None, chain=None, **options):
        """Pass a barrier; the result counts when `complete` says so."""
        prepared = self.begin(backend, chain, **options)
        return None if prepared is None else prepared[1](chain, True)

    def begin(self, backend=None, chain=None, *, force=False, groups=(0, MAX_PARALLELISM)):
        """Pass a barrier; nothing is written yet."""
        self.checkpoint_id += 1
        name = SimpleNamespace(
            checkpoint_id=self.checkpoint_id,
            operator="op",
            subtask=0,
            attempt=f"a{next(_attempts)}",
            key_groups=groups,
        )
        return (backend or self.backend).begin_snapshot(self.io, chain, name, force=force)

    def barrier(self):
        """Pass a barrier and complete the checkpoint."""
        written = self.write(chain=self.chain, force=self.chain is None)
        if written is not None:
            self.chain = written
        return self.chain

    def crash(self, *, lose_local=False):
        """Drop the instance and start again from the last complete checkpoint."""
        self.backend.close()
        if lose_local:
            self.lose_local_files()
        self.backend = self.create()
        if self.chain is not None:
            self.backend.restore(self.io, (self.chain,), None, MAX_PARALLELISM)

    def lose_local_files(self):
        remove(self.directory / "local")

    def rescaled(self, chains, subtask, parallelism, kind=None):
        """A subtask that starts from the chains of all former ones."""
        backend = self.create(subtask, kind)
        owned = key_group_range(subtask, parallelism, MAX_PARALLELISM)
        assert backend.restore(self.io, tuple(chains), owned, MAX_PARALLELISM) is None
        return backend

    def files(self):
        return sorted((self.directory / "storage").glob("shared/*"))


def contents(backend):
    """All entries of all tables that have some, comparable between backends."""
    backend.snapshot()
    return {name: delta.written for name, delta in backend.full_snapshot().items() if delta.written}
