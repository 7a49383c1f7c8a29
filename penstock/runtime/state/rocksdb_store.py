"""A RocksDB database that belongs to one attempt: what it writes counts when a checkpoint names it, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointError
from penstock.runtime.state.rocksdb_settings import RocksDBSettings

_caches: dict[int, Any] = {}

# Runs of files are merged when there are this many. More runs mean less rewriting (and less to upload), and more places
# to look for a key; bloom filters make up for that.
_MAX_RUNS = 8
_MANIFEST_BYTES = 128 * 1024
_FILE_BYTES = 128 << 20


class RocksDBStore:
    """Bytes under bytes, in the order of the keys. Nothing is logged: durable is what a checkpoint has taken."""

    def __init__(self, directory: Path, settings: RocksDBSettings) -> None:
        import rocksdict

        self._rocksdict = rocksdict
        self.directory = directory
        self._write_options = rocksdict.WriteOptions()
        self._write_options.disable_wal = True
        try:
            options = _options(rocksdict, settings)
            # Said for the column family too: else the options of a file in the directory count, less the cache.
            self._db = rocksdict.Rdict(str(directory), options, {"default": options})
        except Exception as error:
            raise CheckpointError(
                f"the state database '{directory}' could not be opened",
                detail=str(error),
                hint="check the disk of state.backend.rocksdb.localdir; without its files the state is read from "
                "checkpoint storage",
            ) from error
        self._db.set_write_options(self._write_options)
        self.get = self._db.get

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the entries from `start`, included, to `end`, excluded."""
        options = self._until(end)
        for entry in self._db.items(from_key=start, read_opt=options):
            if entry[0] >= end:
                return
            yield entry

    def scan_keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """Iterate over the keys from `start`, included, to `end`, excluded."""
        options = self._until(end)
        for key in self._db.keys(from_key=start, read_opt=options):
            if key >= end:
                return
            yield key

    def _until(self, end: bytes) -> Any:
        # The bound spares RocksDB a look at deleted entries behind it.
        options = self._rocksdict.ReadOptions()
        options.set_iterate_upper_bound(end)
        return options

    def batch(self) -> Any:
        """Return an empty batch: it has `put`, `delete` and `delete_range`."""
        return self._rocksdict.WriteBatch(raw_mode=True)

    def write(self, batch: Any) -> None:
        """Write a batch."""
        self._db.write(batch, self._write_options)

    def delete(self, key: bytes) -> None:
        """Delete an entry if it is there."""
        self._db.delete(key, self._write_options)

    def checkpoint(self, directory: Path) -> None:
        """Link all there is into a directory that does not exist yet."""
        self._rocksdict.Checkpoint(self._db).create_checkpoint(str(directory))

    def compact(self) -> None:
        """Merge all files into one run, as RocksDB does by and by in the background."""
        self._db.flush()
        self._db.compact_range(None, None)

    def close(self) -> None:
        """Let go of the files. What was not checkpointed is lost, so it is not written either."""
        self._db.cancel_all_background(True)
        del self._db, self.get


def after(prefix: bytes) -> bytes:
    """Return the first key after all those that begin with `prefix`.

    >>> after(b"ab"), after(b"a" + bytes([255]))
    (b'ac', b'b')
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def _options(rocksdict: Any, settings: RocksDBSettings) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(settings.write_buffer_size)
    options.set_max_write_buffer_number(settings.write_buffer_count)
    options.set_max_open_files(settings.open_files)
    options.set_max_background_jobs(settings.background_threads)
    options.set_max_manifest_file_size(_MANIFEST_BYTES)
    options.set_manifest_preallocation_size(4096)
    options.set_target_file_size_base(_FILE_BYTES)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    if settings.compaction_style == "UNIVERSAL":
        options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
        universal = rocksdict.UniversalCompactOptions()
        universal.size_ratio = 10
        options.set_universal_compaction_options(universal)
        options.set_level_zero_file_num_compaction_trigger(_MAX_RUNS)
    table = rocksdict.BlockBasedOptions()
    table.set_block_size(settings.block_size)
    table.set_block_cache(_shared_cache(rocksdict, settings.block_cache_size))
    # The memory of indexes and filters is part of the cache's, so the size of the state does not matter.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    if settings.bloom_filter:
        table.set_bloom_filter(10, False)
    if settings.partitioned:
        table.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(settings.bloom_filter)
        table.set_pin_top_level_index_and_filter(True)
    options.set_block_based_table_factory(table)
    return options


def _shared_cache(rocksdict: Any, size: int) -> Any:
    cache = _caches.get(size)
    if cache is None:
        cache = _caches[size] = rocksdict.Cache(size)
    return cache
