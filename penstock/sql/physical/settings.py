"""Settings of the physical planner."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.common import Configuration
from penstock.options import table as options
from penstock.options.config_options import ConfigOption
from penstock.sql.connector.discovery import Factories
from penstock.sql.connector.providers import TableFactory
from penstock.sql.connector.registry import CONNECTORS
from penstock.time.durations import Duration


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """The connectors that are known, the options that are set, the session time zone, and whether the job runs in BATCH mode."""

    factories: Factories[TableFactory] = CONNECTORS
    configuration: Configuration = field(default_factory=Configuration)
    zone: str = "UTC"
    batch: bool = False

    @property
    def ttl_ms(self) -> int:
        """Idle state retention in milliseconds; 0: forever."""
        return self.millis(options.STATE_TTL)

    def millis(self, option: ConfigOption[Duration]) -> int:
        """Return a duration in milliseconds."""
        return int(self.configuration.get(option).to_millis())
