"""Which checkpoints stay, and which state files nobody needs any more. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from penstock.checkpoint.handles import epoch_of_file
from penstock.checkpoint.manifest import Manifest
from penstock.files.paths import is_absolute


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """What retention knows of a checkpoint: its epoch and the state files that its manifest names."""

    epoch: int
    files: frozenset[str]

    @classmethod
    def of(cls, manifest: Manifest) -> CompletedCheckpoint:
        """Return the summary of a manifest."""
        return cls(manifest.epoch, manifest.files())


@dataclass(frozen=True, slots=True)
class Retention:
    """A decision: which checkpoints stay, which go, and which files go with them.

    `spared` are files that would go, were they not needed for now.
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
    """Keep the newest `count` checkpoints, and those whose epochs are pinned.

    A file goes when a dropped checkpoint names it and no kept one does: the deltas of a chain stay for as long as the
    chain does. Files of another job never go. Files `in_use` are needed by checkpoints that are not complete yet: such
    a file is spared, and goes with a later decision that is told of it.
    """
    ordered = sorted(completed, key=lambda checkpoint: checkpoint.epoch)
    old, kept = ordered[:-count], ordered[-count:]
    dropped = [checkpoint for checkpoint in old if checkpoint.epoch not in pinned]
    kept = [checkpoint for checkpoint in old if checkpoint.epoch in pinned] + kept
    named = {name for checkpoint in dropped for name in checkpoint.files if not is_absolute(name)}
    needed = _base_names(name for checkpoint in kept for name in checkpoint.files)
    unneeded = {name for name in named.union(spared) if _base_name(name) not in needed}
    busy = _base_names(in_use)
    still = frozenset(name for name in unneeded if _base_name(name) in busy)
    return Retention(
        tuple(kept),
        tuple(checkpoint.epoch for checkpoint in dropped),
        tuple(sorted(unneeded - still)),
        still,
    )


def orphaned(
    files: Iterable[str], retained: Iterable[Manifest], *, up_to_epoch: int | None = None
) -> list[str]:
    """Return the state files that no retained manifest names and that none can name in future.

    A task attempt that failed or lost a race leaves such files. Files of epochs after the newest completed one may
    belong to an attempt that is running now, so they stay, unless it is the job's last; `up_to_epoch` lowers that bound to spare
    more. Files that are not named like state files are not ours and stay too.
    """
    manifests = list(retained)
    if not manifests:
        return []
    newest = max(manifests, key=lambda manifest: manifest.epoch)
    bound: float = math.inf if newest.final else newest.epoch
    if up_to_epoch is not None:
        bound = min(bound, up_to_epoch)
    return unneeded_files(files, (name for each in manifests for name in each.files()), bound)


def unneeded_files(files: Iterable[str], names: Iterable[str], up_to_epoch: float) -> list[str]:
    """Return the state files of epochs up to one that are not among these names."""
    needed = _base_names(names)
    return sorted(
        name
        for name in files
        if (epoch := epoch_of_file(name)) is not None
        and epoch <= up_to_epoch
        and _base_name(name) not in needed
    )


def _base_names(names: Iterable[str]) -> set[str]:
    """Return the last parts of file names.

    They are unique to an attempt. Comparing them keeps a file safe even if a manifest names it by its full path, as one does
    that was restored by path into the directory it came from.
    """
    return {_base_name(name) for name in names}


def _base_name(name: str) -> str:
    return name.partition("?")[0].rpartition("/")[2]
