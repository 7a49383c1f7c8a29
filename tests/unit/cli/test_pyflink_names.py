"""`import pyflink` means Penstock, and only where it was asked for."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

import penstock.common.types
from penstock import errors, pyflink_compat
from penstock.errors import JobExecutionError, PenstockError
from penstock.pyflink_compat import pyflink_names


@pytest.fixture
def names():
    with pyflink_names():
        yield


@pytest.mark.parametrize(
    "module",
    ["", ".common", ".common.typeinfo", ".datastream", ".datastream.window", ".datastream.connectors.file_system"],
)  # fmt: skip
def test_a_module_is_the_same_object_under_both_names(names, module):
    theirs = importlib.import_module(f"pyflink{module}")
    assert theirs is importlib.import_module(f"penstock{module}")


def test_a_module_keeps_its_own_name_and_spec(names):
    module = importlib.import_module("pyflink.common.types")
    assert (module.__name__, module.__spec__.name) == ("penstock.common.types",) * 2


def test_classes_pickle_under_penstocks_names(names):
    from pyflink.common import Row

    assert b"pyflink" not in pickle.dumps(Row(1, "a"))
    assert pickle.loads(pickle.dumps(Row(1, "a"))) == penstock.common.types.Row(1, "a")


def test_a_module_without_a_counterpart_says_so(names):
    with pytest.raises(
        ModuleNotFoundError, match=r"'pyflink\.fn_execution': Penstock has no counterpart"
    ) as caught:
        importlib.import_module("pyflink.fn_execution")
    assert caught.value.name == "pyflink.fn_execution"


def test_the_names_are_gone_afterwards():
    with pyflink_names():
        importlib.import_module("pyflink.common")
    assert not pyflink_compat.is_installed()
    assert "pyflink.common" not in sys.modules


def test_nested_use_ends_with_the_outer_one():
    with pyflink_names():
        with pyflink_names():
            pass
        assert pyflink_compat.is_installed()
    assert not pyflink_compat.is_installed()


@pytest.fixture
def installed_pyflink(tmp_path, monkeypatch):
    package = tmp_path / "pyflink"
    package.mkdir()
    (package / "__init__.py").write_text("real = True")
    (package / "fn_execution.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    pyflink_compat.uninstall()


def test_an_installed_pyflink_is_hidden_and_comes_back(installed_pyflink):
    before = importlib.import_module("pyflink")
    with pyflink_names():
        assert importlib.import_module("pyflink") is penstock
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("pyflink.fn_execution")
    assert importlib.import_module("pyflink") is before
    assert before.real


def test_importing_penstock_does_not_touch_pyflink():
    code = (
        "import sys, penstock.datastream; assert not any('pyflink' in name for name in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_error_of_penstock_is_caught_as_py4js(names):
    from py4j.protocol import Py4JError, Py4JJavaError

    cause = ValueError("no such word")
    with pytest.raises(Py4JJavaError) as caught:
        raise JobExecutionError("job 'words' failed", detail="in map", hint="look") from cause
    error = caught.value
    assert isinstance(error, JobExecutionError)
    assert isinstance(error, Py4JError)
    assert type(error).__name__ == "JobExecutionError"
    assert str(error) == "job 'words' failed\ndetail: in map\nhint: look"
    assert error.errmsg == "job 'words' failed"
    java = error.java_exception
    assert java.getClass().getName() == "org.apache.flink.runtime.client.JobExecutionException"
    assert java.getMessage() == str(error)
    assert java.toString().startswith("org.apache.flink.runtime.client.JobExecutionException: job")
    assert java.getCause().getMessage() == "no such word"
    assert java.getCause().getClass().getSimpleName() == "ValueError"
    assert java.getCause().getCause() is None


def test_every_kind_of_error_is_one_of_py4js_and_keeps_its_own_kind(names):
    from py4j.protocol import Py4JJavaError

    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, PenstockError)
    ]
    for kind in kinds:
        error = pickle.loads(pickle.dumps(kind("a", detail="b")))
        assert isinstance(error, kind)
        assert isinstance(error, Py4JJavaError)
        assert (error.message, error.detail) == ("a", "b")
        assert (
            error.java_exception.getClass()
            .getName()
            .startswith(("org.apache.flink.", "java.lang."))
        )


def test_without_pyflinks_names_errors_are_penstocks_alone():
    from py4j.protocol import Py4JJavaError

    with pyflink_names():
        pickled = pickle.dumps(JobExecutionError("a"))
    assert not isinstance(JobExecutionError("a"), Py4JJavaError)
    assert type(pickle.loads(pickled)) is JobExecutionError
