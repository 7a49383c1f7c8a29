"""Interface of the catalogs that CREATE CATALOG makes, found by the value of the option `type`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.sql.connector.discovery import Factories

if TYPE_CHECKING:
    from penstock.catalogs.in_memory import CatalogStore


class CatalogFactory(ABC):
    """Makes catalogs of one type."""

    identifier: str

    @abstractmethod
    def create(self, name: str, options: Mapping[str, str]) -> CatalogStore:
        """Return a catalog; reject options that it does not have. `options` are those of WITH (...), with the type."""


CATALOGS: Final[Factories[CatalogFactory]] = Factories("catalog")
