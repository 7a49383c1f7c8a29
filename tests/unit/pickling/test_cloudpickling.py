"""The copy of cloudpickle that the driver and tasks use."""

from __future__ import annotations

import os
import pickle
import pickletools
import subprocess
import sys
import types

import cloudpickle

from penstock.pickling import cloudpickling
from penstock.spark.session import pack_package

EXECUTOR = """
import sys
from pathlib import Path
import cloudpickle
from penstock.pickling import cloudpickling
print(cloudpickle.__version__, Path(cloudpickling._own.__file__).parents[3].name)
print(cloudpickling.loads(bytes.fromhex(sys.argv[1]))(2))
"""


def test_executors_use_the_copy_that_came_along_whatever_their_machine_has(tmp_path):
    """The machine's Python has an older version, without what the driver's has."""
    (tmp_path / "machine" / "cloudpickle").mkdir(parents=True)
    older = "__version__ = '1.6.0'\nfrom . import cloudpickle\n"
    (tmp_path / "machine" / "cloudpickle" / "__init__.py").write_text(older)
    (tmp_path / "machine" / "cloudpickle" / "cloudpickle.py").touch()
    pack_package(tmp_path / "penstock.zip")
    limit = 3
    pickled = cloudpickling.dumps(lambda value: value < limit)
    ran = subprocess.run(
        [sys.executable, "-c", EXECUTOR, pickled.hex()],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}/penstock.zip:{tmp_path}/machine"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.stdout.splitlines() == ["1.6.0 penstock.zip", "True"], ran.stderr


def test_pickles_name_nothing_of_the_installed_cloudpickle():
    limit = 3
    pickled = cloudpickling.dumps(lambda value: value < limit)
    named = {text for _, text, _ in pickletools.genops(pickled) if isinstance(text, str)}
    assert not {name for name in named if name.startswith("cloudpickle")}
    assert pickle.loads(pickled)(2)


def test_modules_that_the_program_registers_travel_by_value(monkeypatch):
    module = types.ModuleType("a_module_of_the_program")
    exec("def double(value):\n    return 2 * value\n", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    cloudpickle.register_pickle_by_value(module)
    try:
        pickled = cloudpickling.dumps(module.double)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    monkeypatch.delitem(sys.modules, module.__name__)
    assert pickle.loads(pickled)(21) == 42
