"""State on disk is closed when its test ends: a later garbage collection would wait for RocksDB, a second per database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.testing.harness import OperatorHarness


@pytest.fixture(autouse=True)
def _closed_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[OperatorHarness] = []
    begin = OperatorHarness.__init__

    def noted(self: OperatorHarness, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(OperatorHarness, "__init__", noted)
    yield
    for each in made:
        if each.keyed_state is not None:
            each.keyed_state.close()
