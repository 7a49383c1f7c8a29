"""The page and its pictures show what patterns do today."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from penstock.testing.mini_cluster import MiniCluster

ROOT = Path(__file__).parents[3]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator():
    yield load(ROOT / "tools" / "gen_cep.py")
    del sys.modules["gen_cep"]


def test_the_page_is_fresh(generator):
    page = generator.PAGE.read_text()
    assert generator.render(page, generator.blocks()) == page, "run: python tools/gen_cep.py"


def test_the_pictures_are_fresh(generator):
    drawn = {path.name: path.read_text() for path in generator.IMAGES.glob("*.svg")}
    assert drawn == generator.pictures(), "run: python tools/gen_cep.py"


def test_the_example_finds_the_rings(capsys, monkeypatch):
    example = load(ROOT / "examples" / "fraud_ring.py")
    monkeypatch.setattr(sys, "argv", ["fraud_ring.py"])
    with MiniCluster():
        example.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all("3 test payments, then" in line for line in lines)
    del sys.modules["fraud_ring"]
