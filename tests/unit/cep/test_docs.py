"""The page and its pictures show what patterns do today."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.builders.loading import load

ROOT = Path(__file__).parents[3]


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
