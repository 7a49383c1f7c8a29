"""The copy of cloudpickle that the driver and tasks use."""

from __future__ import annotations

import pickle
import pickletools
import sys
import types

import cloudpickle

from penstock.common import cloudpickling


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
