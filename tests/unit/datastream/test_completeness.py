"""Every class and method of pyflink.datastream is there, or is marked as not implemented."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path

import pytest

from penstock.datastream._not_implemented import missing_methods, not_implemented
from penstock.errors import UnsupportedOperationError

API = json.loads((Path(__file__).parents[2] / "data" / "pyflink_api.json").read_text())
MODULES = [
    name
    for name in API
    if name.startswith("pyflink.datastream")
    and not name.startswith(("pyflink.datastream.connectors", "pyflink.datastream.formats"))
]
# Names that PyFlink's modules merely import, and functions of its gateway to Java.
FOREIGN = {
    "Time", "TypeInformation", "RowTypeInfo", "Types", "Duration",
    "get_gateway", "get_j_env_configuration", "JavaFunctionWrapper",
}  # fmt: skip

# A module that imports a class of another one: the class is looked at where it is defined.
IMPORTED = {("pyflink.datastream.async_data_stream", "DataStream")}

MEMBERS = [
    pytest.param(module, name, info, id=f"{module.removeprefix('pyflink.')}.{name}")
    for module in MODULES
    for name, info in API[module].items()
    if name not in FOREIGN and "methods" in info and (module, name) not in IMPORTED
]


def ours(module: str, name: str):
    return getattr(importlib.import_module(module.replace("pyflink", "penstock")), name)


@pytest.mark.parametrize(("module", "name", "info"), MEMBERS)
def test_every_method_of_pyflink_exists(module, name, info):
    kind = ours(module, name)
    absent = [method for method in info["methods"] if not callable(getattr(kind, method, None))]
    assert absent == []


@pytest.mark.parametrize(("module", "name", "info"), MEMBERS)
def test_every_method_takes_pyflinks_arguments_by_name(module, name, info):
    kind = ours(module, name)
    wrong = {}
    for method, wanted in info["methods"].items():
        member = inspect.getattr_static(kind, method)
        if isinstance(member, not_implemented):
            continue
        parameters = inspect.signature(getattr(kind, method)).parameters
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            continue
        names = {p for p in parameters if p != "self"}
        missing = [p for p in (w.split("=")[0].lstrip("*") for w in wanted) if p not in names]
        if missing:
            wrong[method] = missing
    assert wrong == {}


def test_what_is_not_implemented_is_known():
    """A new entry here is a promise broken; an entry that goes away is good news."""
    missing = {
        name: sorted(missing_methods(ours(module, name)))
        for module in MODULES
        for name, info in API[module].items()
        if name not in FOREIGN and "methods" in info and (module, name) not in IMPORTED
    }
    java = {"get_java_function", "get_java_output_tag", "get_java_memory_size"}
    java |= {"get_java_slot_sharing_group"}
    features = {
        name: [method for method in methods if method not in java]
        for name, methods in missing.items()
        if set(methods) - java
    }
    assert features == {
        "BroadcastConnectedStream": ["__init__", "process"],
        "BroadcastStream": ["__init__"],
        "ConnectedStreams": ["__init__", "flat_map", "key_by", "map", "process"],
        "DataStream": ["cache", "connect"],
        "EmbeddedRocksDBStateBackend": ["get_options", "set_options"],
        "KeyedStream": ["cache", "connect"],
        "StreamExecutionEnvironment": ["create_input"],
    }


def test_a_method_that_is_not_implemented_says_why_when_it_is_called(stream):
    with pytest.raises(
        UnsupportedOperationError, match=r"DataStream\.connect is not implemented"
    ) as caught:
        stream.connect(stream)
    assert "two inputs" in caught.value.detail
    assert "union" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["ConnectedStreams", "BroadcastStream", "BroadcastConnectedStream"]
)
def test_a_class_that_is_not_implemented_cannot_be_created(name):
    with pytest.raises(UnsupportedOperationError, match=name):
        ours("pyflink.datastream", name)(None, None)


PYFLINK_MODULES = [
    "async_data_stream", "checkpoint_config", "checkpoint_storage", "checkpointing_mode", "data_stream",
    "execution_mode", "externalized_checkpoint_retention", "functions", "output_tag", "slot_sharing_group",
    "state", "state_backend", "stream_execution_environment", "time_domain", "timerservice", "window",
]  # fmt: skip


@pytest.mark.parametrize("name", PYFLINK_MODULES)
def test_the_module_paths_of_pyflink_import(name):
    assert importlib.import_module(f"penstock.datastream.{name}").__doc__
