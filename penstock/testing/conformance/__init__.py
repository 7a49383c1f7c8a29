"""A kit that every connector is put through: crashes at each step, replay, rescaling, duplicates, idleness, bad records.

Say how to make the connector, how to feed it and how to see what it shows (`SourceSetup`, `SinkSetup`); a test class with a fixture
`connector` does the rest. `docs/how-to/sources-and-sinks.md` has an example of each.
"""

from __future__ import annotations

from penstock.testing.conformance.classes import (
    SinkConformance,
    SourceConformance,
    sink_rules,
    source_rules,
)
from penstock.testing.conformance.rules import ConformanceError, ConformanceRule
from penstock.testing.conformance.setups import Guarantee, SinkSetup, SourceSetup

__all__ = [
    "ConformanceError",
    "ConformanceRule",
    "Guarantee",
    "SinkConformance",
    "SinkSetup",
    "SourceConformance",
    "SourceSetup",
    "sink_rules",
    "source_rules",
]
