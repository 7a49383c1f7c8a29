"""A driver whose slots are a script."""

from tests.unit.jobmanager.running.pipelined.scripted_slots import scripted  # noqa: F401  - a fixture
