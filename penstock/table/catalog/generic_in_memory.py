"""The catalog type `generic_in_memory`: a catalog that lives as long as its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.sql.connector.catalogs import CatalogFactory
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.table.catalog.in_memory import Catalog

_OPTIONS: Final = ("type", "default-database")


class GenericInMemoryCatalogFactory(CatalogFactory):
    """Makes in-memory catalogs."""

    identifier = "generic_in_memory"

    def create(self, name: str, options: Mapping[str, str]) -> Catalog:
        """Return an empty catalog."""
        for key in options:
            if key not in _OPTIONS:
                raise ValidationError(
                    f"unknown option of an in-memory catalog: '{key}'",
                    hint=did_you_mean(key, _OPTIONS),
                )
        return Catalog(name, options.get("default-database", "default"))
