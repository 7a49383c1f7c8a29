"""The connectors of tables, by the value of the option `connector`."""

from __future__ import annotations

from typing import Final

from penstock.sql.connector.discovery import Factories
from penstock.sql.connector.providers import TableFactory

CONNECTORS: Final[Factories[TableFactory]] = Factories("connector")
