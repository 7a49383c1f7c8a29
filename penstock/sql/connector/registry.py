"""The connectors of tables that come with Penstock, by the value of the option `connector`."""

from __future__ import annotations

import difflib
import importlib
from typing import Final

from penstock.errors import ConfigurationError
from penstock.sql.connector.providers import TableFactories, TableFactory

# Loaded when a table asks for it: a program that reads files needs no Kafka client.
_MODULES: Final = {
    "blackhole": "penstock.connectors.blackhole.table:BlackholeFactory",
    "datagen": "penstock.connectors.datagen.table:DatagenFactory",
    "filesystem": "penstock.connectors.filesystem.table.factory:FilesFactory",
    "jdbc": "penstock.connectors.jdbc.table.factory:JdbcFactory",
    "kafka": "penstock.connectors.kafka.table.factory:KafkaFactory",
    "print": "penstock.connectors.print.table:PrintFactory",
    "upsert-kafka": "penstock.connectors.kafka.table.factory:UpsertKafkaFactory",
    "values": "penstock.connectors.values.table:ValuesFactory",
}


class FactoryRegistry(TableFactories):
    """The factories of this package, and those that programs add."""

    def find(self, identifier: str) -> TableFactory:
        """Return the factory of a connector."""
        found = self.known.get(identifier)
        if found is None:
            address = _MODULES.get(identifier)
            if address is None:
                raise _unknown(identifier, {*_MODULES, *self.known})
            module, _, name = address.partition(":")
            found = self.known[identifier] = getattr(importlib.import_module(module), name)()
        return found


_FACTORIES: Final = FactoryRegistry()


def factories() -> FactoryRegistry:
    """Return the factories of this process."""
    return _FACTORIES


def _unknown(identifier: str, known: set[str]) -> ConfigurationError:
    near = difflib.get_close_matches(identifier, known, 1)
    return ConfigurationError(
        f"unknown connector '{identifier}'",
        detail=f"available connectors: {', '.join(sorted(known))}",
        hint=f"did you mean '{near[0]}'?" if near else None,
    )
