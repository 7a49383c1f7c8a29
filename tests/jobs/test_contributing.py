"""CONTRIBUTING.md is done as it says: its packages are written to a directory, and its tests run."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock import state
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing import MiniCluster
from tests.builders.guide import BLOCKS, PACKAGES, guide_package
from tests.builders.scripted import Script

TESTS = [
    (module, name)
    for module, text in BLOCKS
    if module.startswith("test_")
    for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)
]


@pytest.fixture
def guide():
    """Import a module as the guide writes it."""
    with guide_package():
        yield importlib.import_module


def test_the_guide_has_all_chapters() -> None:
    chapters = ["changes", "distinct", "lines", "merge_limits", "vowels"]
    assert sorted([*chapters, *(f"test_{each}" for each in chapters)]) == PACKAGES
    assert len(TESTS) == 14


@pytest.mark.parametrize(("module", "name"), TESTS, ids=[name for _, name in TESTS])
def test_the_tests_of_the_guide_pass(guide: Any, tmp_path: Path, module: str, name: str) -> None:
    loaded: ModuleType = guide(module.removesuffix(".py"))
    test = getattr(loaded, name)
    test(*[tmp_path for _ in inspect.signature(test).parameters])


class FailsOnce:
    """Raises at one record, the first time that it sees it in this process."""

    failed = False

    def __call__(self, record: Any) -> Any:
        if record == ("a", 3) and not FailsOnce.failed:
            FailsOnce.failed = True
            raise RuntimeError("pulled the plug")
        return record


def test_the_operator_of_the_guide_goes_on_from_a_checkpoint(
    guide: Any, tmp_path: Path, backend: str
) -> None:
    """The job fails in its third epoch: what the operator remembers then comes from the checkpoint of the second."""
    FailsOnce.failed = False
    changes = guide("changes").changes
    options = Configuration()
    options.set_string("state.backend.type", backend)
    options.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    options.set_string(
        "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"
    )
    options.set_string("restart-strategy.type", "fixed-delay")
    options.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    epochs = [
        [(("a", 1), 0)],
        [(("a", 2), 0), (("b", 1), 0)],
        [(("a", 2), 0), (("a", 3), 0)],
        [(("b", 1), 0)],
    ]
    with MiniCluster() as cluster:
        env = StreamExecutionEnvironment.get_execution_environment(options)
        env.enable_checkpointing(10)
        source = env.from_source(Script(epochs), WatermarkStrategy.no_watermarks(), "readings")
        readings = source.map(FailsOnce()).key_by(lambda reading: reading[0])
        changed = changes(readings, lambda reading: reading[1]).uid("changes")
        with changed.execute_and_collect() as results:
            assert list(results) == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
        job = cluster.masters[0].job
    assert FailsOnce.failed
    snapshot = state.read(f"{job.checkpoints.directory}/{job.job_id}")
    assert {row.key: row.value for row in snapshot.state("changes", "changes/last")} == {
        "a": 3,
        "b": 1,
    }
    assert "the last value of a key" in str(snapshot)
