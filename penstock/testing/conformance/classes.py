"""Test classes for pytest, which is not imported here: users have it where these are used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.testing.conformance import sink_jobs, source_jobs  # noqa: F401 - they add their rules
from penstock.testing.conformance.rules import ConformanceRule
from penstock.testing.conformance.setups import SinkSetup, SourceSetup
from penstock.testing.conformance.sink_rules import SINK_RULES
from penstock.testing.conformance.source_rules import SOURCE_RULES


class _Conformance:
    """One test for each rule. A subclass, or its module, has a fixture `connector` that returns a new setup."""

    rules: Sequence[ConformanceRule[Any]] = ()

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make a test of each rule."""
        if "rule" in metafunc.fixturenames:
            metafunc.parametrize("rule", self.rules, ids=str)

    def test_the_connector_keeps_the_rule(
        self, connector: Any, tmp_path: Path, rule: ConformanceRule[Any]
    ) -> None:
        """Put the connector through one rule."""
        try:
            rule.check(connector, tmp_path)
        finally:
            connector.close()


class SourceConformance(_Conformance):
    """Puts a source through all rules for sources.

    A subclass whose name begins with Test, with a fixture that makes the setup, is all there is to write:

        class TestMySource(SourceConformance):
            @pytest.fixture
            def connector(self, tmp_path):
                return MySetup(tmp_path / "input")
    """

    rules = SOURCE_RULES.rules


class SinkConformance(_Conformance):
    """Puts a sink through all rules for sinks; see SourceConformance."""

    rules = SINK_RULES.rules


def source_rules() -> Sequence[ConformanceRule[SourceSetup]]:
    """Return all rules for sources."""
    return tuple(SOURCE_RULES.rules)


def sink_rules() -> Sequence[ConformanceRule[SinkSetup]]:
    """Return all rules for sinks."""
    return tuple(SINK_RULES.rules)
