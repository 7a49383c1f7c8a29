"""The HTTP sink goes through the kit for connectors, with a server that is a process."""

from __future__ import annotations

import pytest

from penstock.datastream.connectors.http import HttpSink
from penstock.testing.conformance import Guarantee, SinkConformance, SinkSetup
from tests.builders.modes import SOAKS


class PostedSetup(SinkSetup):
    """Records are posted in batches: at least once."""

    guarantee = Guarantee.AT_LEAST_ONCE

    def __init__(self, program):
        self.program = program

    def create(self):
        return HttpSink(self.program.url, framing="json_array", linger_ms=20)

    def shown(self):
        return self.program.taken()

    def unwritable(self):
        return object()

    def wrong_arguments(self):
        return (lambda: HttpSink("ftp://x"), lambda: HttpSink(self.program.url, method="GET"))


class TestPosted(SinkConformance):
    # There is not a committer, so a killed driver has nothing to commit.
    rules = [rule for rule in SinkConformance.rules if SOAKS or "killed" not in str(rule)]

    @pytest.fixture
    def connector(self, program):
        return PostedSetup(program)
