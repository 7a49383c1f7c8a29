"""Which checkpoints stay, and which state files nobody needs any more. Pure functions."""

from __future__ import annotations

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
    """A decision: which checkpoints stay, which go, and which files go with them."""

    kept: tuple[CompletedCheckpoint, ...]
    dropped: tuple[int, ...]
    files: tuple[str, ...]


def retain(
    completed: Sequence[CompletedCheckpoint], count: int, pinned: Collection[int] = ()
) -> Retention:
    """Keep the newest `count` checkpoints, and those whose epochs are pinned.

    A file goes when a dropped checkpoint names it and no kept one does: the deltas of a chain stay for as long as the
    chain does. Files of another job never go.
    """
    ordered = sorted(completed, key=lambda checkpoint: checkpoint.epoch)
    old, kept = ordered[:-count], ordered[-count:]
    dropped = [checkpoint for checkpoint in old if checkpoint.epoch not in pinned]
    kept = [checkpoint for checkpoint in old if checkpoint.epoch in pinned] + kept
    needed = _base_names(kept)
    unneeded = {
        name
        for checkpoint in dropped
        for name in checkpoint.files
        if not is_absolute(name) and _base_name(name) not in needed
    }
    return Retention(
        tuple(kept), tuple(checkpoint.epoch for checkpoint in dropped), tuple(sorted(unneeded))
    )


def orphaned(
    files: Iterable[str], retained: Iterable[Manifest], *, up_to_epoch: int | None = None
) -> list[str]:
    """Return the state files that no retained manifest names and that none can name in future.

    A task attempt that failed or lost a race leaves such files. Files of epochs after the newest completed one may
    belong to an attempt that is running now, so they stay; `up_to_epoch` lowers that bound to spare more. Files that are
    not named like state files are not ours and stay too.
    """
    checkpoints = [CompletedCheckpoint.of(manifest) for manifest in retained]
    if not checkpoints:
        return []
    bound = max(checkpoint.epoch for checkpoint in checkpoints)
    if up_to_epoch is not None:
        bound = min(bound, up_to_epoch)
    needed = _base_names(checkpoints)
    return sorted(
        name
        for name in files
        if (epoch := epoch_of_file(name)) is not None
        and epoch <= bound
        and _base_name(name) not in needed
    )


def _base_names(checkpoints: Iterable[CompletedCheckpoint]) -> set[str]:
    # Names are unique to an attempt. Comparing last parts keeps a file safe even if a manifest names it by its full
    # path, as one does that was restored by path into the directory it came from.
    return {_base_name(name) for checkpoint in checkpoints for name in checkpoint.files}


def _base_name(name: str) -> str:
    return name.partition("?")[0].rpartition("/")[2]
