"""Behaviours that PyFlink's users rely on, against what PyFlink answered when it was asked.

The snippets are in tests/data/pyflink_snippets.txt, the answers of PyFlink 2.3.0 beside them; tools/record_pyflink_answers.py
records them. Where Penstock answers otherwise, DIFFERENCES says what and why.
"""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path

import pytest

from penstock.pyflink_compat import pyflink_names
from tests.builders.cases import check_all, part
from tests.builders.clusters import own_cluster

ROOT = Path(__file__).parents[3]
RAISES = "raises"
#: The snippets run in so many tests, so that workers can share them.
PARTS = 4

_EARLY = "what can never work is refused when it is said"
_WORKS = "it works here"
_SAVED = "it is the name of the type in savepoints"

# snippet -> (Penstock's answer, why it is another one)
DIFFERENCES = {
    'str(DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]))': (
        "'ROW<`a` INT>'",
        "types are written as SQL writes them",
    ),
    "Types.CHAR()": ("Character", _SAVED),
    "hash(Types.INT()) == hash(Types.INT())": ("True", _WORKS),
    "Types.PRIMITIVE_ARRAY(Types.STRING())": (RAISES, _EARLY),
    "Types.BASIC_ARRAY(Types.ROW([Types.INT()]))": (RAISES, _EARLY),
    'Types.ROW_NAMED(["a"], [Types.INT(), Types.STRING()])': (RAISES, _EARLY),
    "str(Instant(1, 5))": (
        "'1970-01-01T00:00:01.000000005Z'",
        "records are written as Flink's Java side writes them",
    ),
    'str(conf({"s3.secret-key": "x", "my.password": "p", "a": "b"}))': (
        "'{a=b, my.password=******, s3.secret-key=******}'",
        "options are sorted; theirs have the order of a hash table",
    ),
    "env().get_config().get_parallelism() == env().get_parallelism()": (
        "False",
        "-1 until one is set: the number of slots is known when the job starts",
    ),
    "env().get_config().has_generic_types_disabled()": ("False", _WORKS),
    "env().get_config().disable_generic_types().has_generic_types_disabled()": ("True", _WORKS),
    "env().get_config().set_parallelism(-2)": (RAISES, _EARLY),
    "env().get_config().set_max_parallelism(40000)": (RAISES, _EARLY),
    "env().get_checkpoint_config().get_checkpointing_mode()": (
        "<CheckpointingMode.EXACTLY_ONCE: 0>",
        "sinks commit once, also without checkpoints",
    ),
    "env().get_checkpointing_mode()": (
        "<CheckpointingMode.EXACTLY_ONCE: 0>",
        "sinks commit once, also without checkpoints",
    ),
    "env().get_checkpoint_config().get_checkpoint_storage()": ("None", _WORKS),
    'FileSystemCheckpointStorage("/tmp/x").get_checkpoint_path()': (
        "'/tmp/x'",
        "a path without a scheme is a local one",
    ),
    "EmbeddedRocksDBStateBackend().is_incremental_checkpoints_enabled()": (
        "True",
        "checkpoints hold what changed, unless told otherwise",
    ),
    "EmbeddedRocksDBStateBackend().get_db_storage_paths()": ("None", _WORKS),
    "numbers().key_by(lambda v: v).sum().get_name()": ("'Sum'", "plans show what an operator does"),
    "numbers().process(lambda v: v)": (RAISES, _EARLY),
    "numbers().process(KeyedNothing())": (RAISES, _EARLY),
    "numbers().window_all(5)": (RAISES, _EARLY),
    "numbers().key_by(lambda v: v).window(5)": (RAISES, _EARLY),
    "numbers().key_by(lambda v: v).count_window(0)": (RAISES, _EARLY),
    "ValueStateDescriptor(1, Types.INT())": (RAISES, _EARLY),
    'ValueStateDescriptor("a", int)': (RAISES, _EARLY),
    'MapStateDescriptor("a", Types.INT(), 5)': (RAISES, _EARLY),
    "StateTtlConfig.new_builder(5)": ("<StateTtlConfigBuilder>", "the class has another name"),
    "GlobalWindows.create().assign_windows(None, 5, None)": (
        "(GlobalWindow,)",
        "there is one such window, and one tuple of it",
    ),
    "len(str(JobID()))": ("32", _WORKS),
    "RollingPolicy.default_rolling_policy()": (
        "RollingPolicy(part_size=134217728, rollover_interval=60000, inactivity_interval=60000)",
        "one class for all policies",
    ),
    "collect(lambda e: e.from_collection([1]).map(lambda v: None))": ("[None]", _WORKS),
    'collect(lambda e: e.from_collection([b"ab"], Types.PRIMITIVE_ARRAY(Types.BYTE())))': (
        "[b'ab']",
        _WORKS,
    ),
    "collect(lambda e: e.from_collection([[1, 2]], Types.LIST(Types.INT())))": ("[[1, 2]]", _WORKS),
}


def load(name):
    """Import a module of tools/, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


snippets = load("pyflink_snippets")


@cache
def recorded_answers():
    """What PyFlink answered to each snippet."""
    return json.loads((ROOT / "tests" / "data" / "pyflink_answers.json").read_text())


@pytest.fixture(scope="module")
def names():
    with pyflink_names(), own_cluster():
        yield snippets.namespace()


@pytest.mark.parametrize("number", range(PARTS))
def test_penstock_answers_as_pyflink_does(number, names):
    def check(snippet):
        theirs = recorded_answers()[snippet]
        expected = DIFFERENCES[snippet][0] if snippet in DIFFERENCES else theirs
        ours = snippets.answer_of(snippet, names)
        if ours != expected and expected.startswith("<"):  # an object that shows only its class
            ours = snippets.answer_of(snippet, names, plain=True)
        assert ours == expected

    cases = {snippet: snippet for snippet in recorded_answers()}
    check_all(part(cases, number, PARTS), check)


def test_every_snippet_was_recorded_and_every_difference_is_one():
    answers = recorded_answers()
    assert list(answers) == snippets.read_snippets(ROOT / "tests" / "data" / "pyflink_snippets.txt")
    assert set(DIFFERENCES) <= set(answers)
    assert [each for each, (ours, _) in DIFFERENCES.items() if ours == answers[each]] == []
