"""Objects of classes that only the script has (`__main__`), restored in another version of that script on Spark."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.common import Configuration
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.errors import PenstockError
from tests.builders.endless import EndlessSource
from tests.builders.waiting import wait_until

TIMEOUT_S = 240
# The object has the program's class, is the one that was put first, and has this version's method.
OLD = "True True old"


class Numbers(EndlessSource):
    """Counts up, ten numbers in every epoch."""

    def splits(self) -> Sequence[SourceSplit]:
        return [SourceSplit("one", start=0)]

    def create_reader(self) -> SourceReader:
        return _Numbers()


class _Numbers(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        yield SourceBatch(list(range(position, position + 10)), position + 10)


SCRIPT = """
import dataclasses, enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple
import attrs
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import CheckpointedFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor

{classes}

def described(found):
    return f"{{type(found) is type({value})}} {{'tea' in repr(found)}} {{found.total()}}"

class First(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("order"))

    def process_element(self, value, ctx):
        found = self.state.value()
        if found is None:
            self.state.update({value})
        else:
            yield described(found)

class Kept(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("order"))
        if not list(self.state):
            self.state.add({value})

    def snapshot_state(self, context):
        pass

    def map(self, value):
        return described(list(self.state)[0])

def start(source, configuration, out, kept):
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    if kept:
        texts = numbers.map(Kept()).uid("orders")
    else:
        texts = numbers.key_by(lambda number: number % 3).process(First()).uid("orders")
    texts.name("orders")
    texts.sink_to(FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()).uid("out")
    return env.execute_async("orders")
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let this process run a script with some classes."""

    def become(classes: str, value: str) -> Any:
        module = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        exec(SCRIPT.format(classes=classes, value=value), module.__dict__)
        return module

    return become


def started(
    script: Any, directory: Path, out: Path, *, kept: bool, mode: str, backend: str, **more: str
) -> Any:
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": str(directory),
            "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
            "penstock.execution.mode": mode,
            "state.backend.type": backend,
            "restart-strategy.type": "none",
            **more,
        }
    )
    return script.start(Numbers(), configuration, str(out), kept)


def lines(out: Path, *, hidden: bool = False) -> set[str]:
    """Return what the jobs have written; what is not committed yet is in hidden files."""
    files = [file for file in out.rglob("*") if file.is_file()]
    return {
        line
        for file in files
        if hidden or not any(part.startswith(".") for part in file.relative_to(out).parts)
        for line in file.read_text().splitlines()
    }


def own_checkpoints(client: Any) -> int:
    """Return how many checkpoints a job has completed since it was started; its last one may be a restored one."""
    completed: int = client._controller.view().checkpoints().completed_count
    return completed


def end(client: Any, *, savepoint: bool, directory: Path, out: Path, line: str) -> str:
    """Stop a job when it has written a line, or a wrong one; return where it can be restored from."""
    ended = client.get_job_execution_result()

    def has_written() -> bool:
        found = lines(out, hidden=True)
        return own_checkpoints(client) >= 2 and (line in found or not found <= {OLD})

    wait_until(lambda: ended.done() or has_written(), seconds=TIMEOUT_S)
    if ended.done():
        ended.result()
    if savepoint:
        path: str = client.stop_with_savepoint(False).result(TIMEOUT_S)
        client.get_job_execution_result().result(TIMEOUT_S)
        return path
    client.cancel().result(TIMEOUT_S)
    with pytest.raises(PenstockError):
        client.get_job_execution_result().result(TIMEOUT_S)
    return str(directory / str(client.get_job_id()))


TOTAL = "    def total(self): return '{}'\n"


class Change(NamedTuple):
    """The classes before, what is replaced in them, the object, and what the refusal says; None: it is restored."""

    old: str
    before: str
    after: str
    value: str
    says: str | None = None


ORDER = "@dataclass\nclass Order:\n    item: str = ''\n    price: int = 0\n" + TOTAL.format("old")
PAIR = "class Pair(NamedTuple):\n    item: str\n    price: int\n" + TOTAL.format("old")
CART = ORDER + "\n@dataclass\nclass Cart:\n    orders: Any\n" + TOTAL.format("old")
RENAMED = "fields in the state: item, price; fields of the program: item, amount"
CHANGES = {
    "renamed field": Change(ORDER, "price", "amount", "Order('tea', 3)", RENAMED),
    "renamed field of a class with slots": Change(
        ORDER.replace("@dataclass", "@dataclass(slots=True)"),
        "price",
        "amount",
        "Order('tea', 3)",
        RENAMED,
    ),
    "renamed field of a NamedTuple": Change(PAIR, "price", "amount", "Pair('tea', 3)", RENAMED),
    "renamed field of an attrs class": Change(
        ORDER.replace("@dataclass", "@attrs.define"), "price", "amount", "Order('tea', 3)", RENAMED
    ),
    "renamed field of an inner object": Change(
        CART, "price", "amount", "Cart([Order('tea', 3)])", RENAMED
    ),
    "unchanged": Change(ORDER, "old", "old", "Order('tea', 3)"),
    "other methods": Change(ORDER, "old", "new", "Order('tea', 3)"),
    "new field with a default": Change(
        ORDER, TOTAL.format("old"), "    tax: int = 7\n" + TOTAL.format("new"), "Order('tea', 3)"
    ),
}


def run_changed(script: Any, change: Change, tmp_path: Path, **how: Any) -> None:
    savepoint, out = how.pop("savepoint"), tmp_path / "out"
    first = started(script(change.old, change.value), tmp_path / "first", out, **how)
    path = end(first, savepoint=savepoint, directory=tmp_path / "first", out=out, line=OLD)

    # The program would put another object into empty state.
    new = script(
        change.old.replace(change.before, change.after), change.value.replace("tea", "water")
    )
    recover = {"execution.state-recovery.path": path}
    second = started(new, tmp_path / "second", out, **how, **recover)
    if change.says is None:
        restored = OLD if change.before == change.after else "True True new"
        end(second, savepoint=True, directory=tmp_path / "second", out=out, line=restored)
        assert lines(out) == {OLD, restored}
        return
    ended = second.get_job_execution_result()
    wait_until(lambda: ended.done() or own_checkpoints(second) > 0, seconds=TIMEOUT_S)
    if not ended.done():
        second.cancel().result(TIMEOUT_S)
        pytest.fail("the state was not refused")
    with pytest.raises(Exception, match="which has changed") as failed:
        ended.result()
    said = str(failed.value)
    assert change.says in said
    assert "state 'order' of operator" in said
    assert "orders" in said
    assert "__main__." in said
    assert lines(out, hidden=True) <= {OLD}


def _case(name: str, mode: str, backend: str, end: str, kind: str, *marks: Any) -> Any:
    return pytest.param(
        CHANGES[name],
        {
            "mode": mode,
            "backend": backend,
            "savepoint": end == "savepoint",
            "kept": kind != "keyed",
        },
        id=f"{name}-{mode}-{backend}-{end}-{kind}",
        marks=marks,
    )


FULL = pytest.mark.full
CASES = [
    _case("renamed field", "epochs", "hashmap", "savepoint", "keyed", pytest.mark.ci),
    _case("other methods", "epochs", "rocksdb", "checkpoint", "keyed", pytest.mark.ci),
    _case("renamed field", "epochs", "rocksdb", "checkpoint", "keyed", FULL),
    _case("renamed field", "pipelined", "rocksdb", "savepoint", "keyed", FULL),
    _case("renamed field", "pipelined", "hashmap", "checkpoint", "keyed", FULL),
    _case("renamed field", "epochs", "hashmap", "checkpoint", "operator", FULL),
    _case("renamed field", "pipelined", "hashmap", "savepoint", "operator", FULL),
    _case("renamed field of a class with slots", "epochs", "rocksdb", "savepoint", "keyed", FULL),
    _case("renamed field of a NamedTuple", "epochs", "rocksdb", "checkpoint", "keyed", FULL),
    _case("renamed field of an attrs class", "epochs", "hashmap", "checkpoint", "keyed", FULL),
    _case("renamed field of an inner object", "epochs", "hashmap", "savepoint", "keyed", FULL),
    _case("unchanged", "epochs", "hashmap", "checkpoint", "keyed", FULL),
    _case("other methods", "pipelined", "hashmap", "savepoint", "keyed", FULL),
    _case("other methods", "epochs", "hashmap", "savepoint", "operator", FULL),
    _case("new field with a default", "pipelined", "rocksdb", "checkpoint", "keyed", FULL),
    _case("new field with a default", "epochs", "hashmap", "savepoint", "keyed", FULL),
]


@pytest.mark.parametrize(("change", "how"), CASES)
def test_objects_of_the_script_are_refused_or_become_those_of_its_new_classes(
    script: Any, tmp_path: Path, change: Change, how: dict[str, Any]
) -> None:
    run_changed(script, change, tmp_path, **how)
