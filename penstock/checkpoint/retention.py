"""Retention: which checkpoints are kept, and which state files are no longer needed. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from penstock.checkpoint.handles import checkpoint_id_of_file
from penstock.checkpoint.manifest import Manifest
from penstock.files.paths import is_absolute


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """A checkpoint as retention sees it: its id and the state files that its manifest names."""

    checkpoint_id: int
    files: frozenset[str]

    @classmethod
    def of(cls, manifest: Manifest) -> CompletedCheckpoint:
        """Return the summary of a manifest."""
        return cls(manifest.checkpoint_id, manifest.files())


@dataclass(frozen=True, slots=True)
class Retention:
    """A retention decision: the checkpoints to keep, those to drop, and the files to delete with them.

    `spared` are files that would be deleted if pending checkpoints did not need them.
    """

    kept: tuple[CompletedCheckpoint, ...]
    dropped: tuple[int, ...]
    files: tuple[str, ...]
    spared: frozenset[str] = frozenset()


def retain(
    completed: Sequence[CompletedCheckpoint],
    count: int,
    pinned: Collection[int] = (),
    *,
    in_use: Collection[str] = (),
    spared: Collection[str] = (),
) -> Retention:
    """Keep the newest `count` checkpoints, and pinned ones.

    A file is deleted when a dropped checkpoint names it and no kept one does: the deltas of a chain stay as long as the chain.
    Files of another job are never deleted. Files `in_use` are needed by pending checkpoints: they are spared, and deleted by a
    later decision that gets them as input.
    """
    ordered = sorted(completed, key=lambda checkpoint: checkpoint.checkpoint_id)
    old, kept = ordered[:-count], ordered[-count:]
    dropped = [checkpoint for checkpoint in old if checkpoint.checkpoint_id not in pinned]
    kept = [checkpoint for checkpoint in old if checkpoint.checkpoint_id in pinned] + kept
    named = {name for checkpoint in dropped for name in checkpoint.files if not is_absolute(name)}
    needed = _base_names(name for checkpoint in kept for name in checkpoint.files)
    unneeded = {name for name in named.union(spared) if _base_name(name) not in needed}
    busy = _base_names(in_use)
    still = frozenset(name for name in unneeded if _base_name(name) in busy)
    return Retention(
        tuple(kept),
        tuple(checkpoint.checkpoint_id for checkpoint in dropped),
        tuple(sorted(unneeded - still)),
        still,
    )


def orphaned(
    files: Iterable[str], retained: Iterable[Manifest], *, up_to_checkpoint_id: int | None = None
) -> list[str]:
    """Return the state files that no retained manifest names and no future one can name.

    A task attempt that failed or lost a race leaves such files. Files of checkpoints after the newest completed one may belong
    to a running attempt, so they are kept, unless it is the job's last; `up_to_checkpoint_id` lowers that bound to keep more.
    Files that are not named like state files are kept, too.
    """
    manifests = list(retained)
    if not manifests:
        return []
    newest = max(manifests, key=lambda manifest: manifest.checkpoint_id)
    bound: float = math.inf if newest.final else newest.checkpoint_id
    if up_to_checkpoint_id is not None:
        bound = min(bound, up_to_checkpoint_id)
    return unneeded_files(files, (name for each in manifests for name in each.files()), bound)


def unneeded_files(
    files: Iterable[str], names: Iterable[str], up_to_checkpoint_id: float
) -> list[str]:
    """Return the state files of checkpoints up to one that are not among these names."""
    needed = _base_names(names)
    return sorted(
        name
        for name in files
        if (checkpoint_id := checkpoint_id_of_file(name)) is not None
        and checkpoint_id <= up_to_checkpoint_id
        and _base_name(name) not in needed
    )


def _base_names(names: Iterable[str]) -> set[str]:
    """Return the last parts of file names.

    They are unique to an attempt. Comparing them keeps a file safe even if a manifest names it by its full path, which happens
    after a restore by path into the directory it came from.
    """
    return {_base_name(name) for name in names}


def _base_name(name: str) -> str:
    return name.partition("?")[0].rpartition("/")[2]
