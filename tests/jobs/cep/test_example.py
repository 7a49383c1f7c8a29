"""The example of the page about patterns runs."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.testing import MiniCluster
from tests.builders.loading import load

ROOT = Path(__file__).parents[3]


def test_the_example_finds_the_rings(capsys, monkeypatch):
    example = load(ROOT / "examples" / "fraud_ring.py")
    monkeypatch.setattr(sys, "argv", ["fraud_ring.py"])
    with MiniCluster():
        example.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all("3 test payments, then" in line for line in lines)
    del sys.modules["fraud_ring"]
