"""The ways to run a job, for tests that say the same about each of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

EPOCHS = "epochs"
PIPELINED = "pipelined"
MODES = (EPOCHS, PIPELINED)
# Set by `make soak`: what takes too long for every run of the tests is done too.
SOAKS = "PENSTOCK_SOAK" in os.environ


def runs_in(mode: str) -> dict[str, str]:
    """Return the options of a job that runs in a mode, also one whose sources end."""
    return {"penstock.execution.mode": mode}


@dataclass(frozen=True)
class Way:
    """A mode, a state backend, and how barriers go."""

    mode: str
    backend: str
    unaligned: bool = False

    @property
    def pipelined(self) -> bool:
        """Whether records flow: there are no epochs."""
        return self.mode == PIPELINED

    @property
    def options(self) -> dict[str, str]:
        """The options of a job that runs this way."""
        return {
            "state.backend.type": self.backend,
            "execution.checkpointing.unaligned.enabled": str(self.unaligned).lower(),
            **runs_in(self.mode),
        }

    def __str__(self) -> str:
        return " ".join([self.mode, self.backend, *(["unaligned"] if self.unaligned else [])])


WAYS = (
    Way(EPOCHS, "hashmap"),
    Way(EPOCHS, "rocksdb"),
    Way(PIPELINED, "hashmap", unaligned=True),
    Way(PIPELINED, "rocksdb"),
    *((Way(PIPELINED, "hashmap"), Way(PIPELINED, "rocksdb", unaligned=True)) if SOAKS else ()),
)


def ways(*in_ci: Way) -> Sequence[Any]:
    """Return all ways as parameters of a test; `make test` runs those that are given."""
    assert set(in_ci) <= set(WAYS)
    return [pytest.param(way, marks=[pytest.mark.ci] if way in in_ci else []) for way in WAYS]
