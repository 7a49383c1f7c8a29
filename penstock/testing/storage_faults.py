"""File systems that fail on command: of checkpoints, and of connectors. See `penstock.files.storage_faults`."""

from __future__ import annotations

from penstock.files.storage_faults import StorageFaultHook, StorageFaults, storage_faults

__all__ = ["StorageFaultHook", "StorageFaults", "storage_faults"]
