"""Every class, method and parameter of pyflink.common, pyflink.datastream and pyflink.table is there, or says why it is not."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path

import pytest

from penstock.datastream.state_backend import EmbeddedRocksDBStateBackend
from penstock.errors import UnsupportedOperationError
from penstock.errors.not_implemented import not_implemented_class
from tests.builders.cases import by_name, check_all

ROOT = Path(__file__).parents[3]


def load_generator():
    spec = importlib.util.spec_from_file_location(
        "gen_api_coverage", ROOT / "tools" / "gen_api_coverage.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["gen_api_coverage"] = module
    spec.loader.exec_module(module)
    return module


generator = load_generator()


@cache
def coverages():
    """The comparison of each class, by its name in pyflink."""
    return by_name(
        generator.compare_all(),
        lambda coverage: f"{coverage.module.removeprefix('pyflink.')}.{coverage.name}",
    )


def test_every_name_of_pyflink_is_there():
    def check(coverage):
        assert coverage.missing == []

    check_all(coverages(), check)


def test_every_method_takes_pyflinks_arguments_by_name():
    def check(coverage):
        assert coverage.parameters == {}

    check_all(coverages(), check)


def test_unimplemented_methods_are_listed():
    """A new entry here is a promise broken; an entry that goes away is good news."""
    features = {}
    for coverage in coverages().values():
        if coverage.features:
            features[coverage.name] = sorted(coverage.features)
    assert features.pop("EmbeddedRocksDBStateBackend") == ["get_options", "set_options"]
    assert features.pop("Table") == ["flat_aggregate", "from_changelog", "to_changelog"]
    # plans that are compiled, models, modules, Java, statistics
    assert set(features) == {
        "Catalog",
        "CatalogBaseTable",
        "Expression",
        "GroupedTable",
        "StatementSet",
        "StreamTableEnvironment",
        "TableEnvironment",
        "TablePipeline",
    }


def test_modules_without_an_implementation_are_known():
    refused = {each.module for each in coverages().values() if each.refused}
    assert refused == {"pyflink.table", "pyflink.table.catalog", "pyflink.table.types"}


def test_comparison_detects_missing_methods():
    described = {
        "init": ["stream", "speed=1"],
        "methods": {"map": ["func", "colour=None"], "teleport": []},
    }
    found = generator.compare("pyflink.datastream", "DataStream", described)
    assert found.missing == ["teleport"]
    assert found.parameters == {"map": ["colour"], "__init__": ["stream", "speed"]}
    assert generator.compare("pyflink.datastream", "Teleport", {}).missing == ["Teleport"]
    assert generator.compare("pyflink.nowhere", "Thing", {}).missing == ["Thing"]


def test_the_page_of_coverage_is_up_to_date():
    assert generator.PAGE.read_text() == generator.render(), "run: python tools/gen_api_coverage.py"


def test_a_method_that_is_not_implemented_says_why_when_it_is_called():
    with pytest.raises(
        UnsupportedOperationError,
        match=r"EmbeddedRocksDBStateBackend\.get_options is not implemented",
    ) as caught:
        EmbeddedRocksDBStateBackend().get_options()
    assert "Java" in caught.value.detail


@pytest.mark.parametrize(
    "use", [lambda kind: kind(), lambda kind: kind.builder()], ids=["an object", "a builder"]
)
def test_a_class_that_is_not_implemented_says_why_when_it_is_used(use):
    kind = not_implemented_class("Teleport", "nothing goes that fast", hint="walk")
    with pytest.raises(UnsupportedOperationError, match="Teleport") as caught:
        use(kind)
    assert caught.value.detail == "nothing goes that fast"
    assert caught.value.hint == "walk"


PYFLINK_MODULES = [
    "async_data_stream", "checkpoint_config", "checkpoint_storage", "checkpointing_mode", "data_stream",
    "execution_mode", "externalized_checkpoint_retention", "functions", "output_tag", "slot_sharing_group",
    "state", "state_backend", "stream_execution_environment", "time_domain", "timerservice", "window",
]  # fmt: skip


@pytest.mark.parametrize("name", PYFLINK_MODULES)
def test_the_module_paths_of_pyflink_import(name):
    assert importlib.import_module(f"penstock.datastream.{name}").__doc__
