"""A driver whose slots are a script."""

from tests.unit.jobmanager.pipelined.scripted_slots import scripted  # noqa: F401  - a fixture
