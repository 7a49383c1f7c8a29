"""Finds factories of connectors, formats and catalogs: any installed package can bring some.

A package names them in its pyproject.toml, as Penstock does with its own:

    [project.entry-points."penstock.connectors"] kafka = "penstock.connectors.kafka.table.factory:KafkaFactory"
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from penstock.dependencies.distribution import DISTRIBUTION, install_command
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_NOT_INSTALLED: Final = (
    f"the metadata of the installed package '{DISTRIBUTION}' has no {{kind}}s: run tools/setup.sh or "
    f"`pip install -e .` in a source tree; elsewhere, `{install_command()}`"
)


class Factory(Protocol):
    """What all factories have: the name by which statements refer to them."""

    identifier: str


F = TypeVar("F", bound=Factory)


class Factories(Generic[F]):
    """The factories of an entry point group. Each is loaded when a statement first refers to it.

    >>> type(Factories("connector").find("blackhole")).__name__
    'BlackholeFactory'
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind  # such as connector, whose group is penstock.connectors
        self._loaded: dict[str, F] = {}

    def add(self, factory: F) -> None:
        """Register a factory in this process."""
        self._loaded[factory.identifier] = factory

    def names(self) -> list[str]:
        """Return the names of all factories, without loading any."""
        return sorted({*self._loaded, *(each.name for each in self._entry_points())})

    def find(self, name: str) -> F:
        """Return the factory of a name."""
        found = self._loaded.get(name)
        if found is None:
            found = self._loaded[name] = self._load(name)
        return found

    def _load(self, name: str) -> F:
        declared = [each for each in self._entry_points() if each.name == name]
        if not declared:
            raise self._unknown(name)
        if len({each.value for each in declared}) > 1:
            raise ConfigurationError(
                f"{self._kind} '{name}' is in several installed packages",
                detail=", ".join(sorted(f"{_package(each)} ({each.value})" for each in declared)),
                hint="uninstall all of these packages but one",
            )
        try:
            made: F = declared[0].load()()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"cannot load {self._kind} '{name}' of package '{_package(declared[0])}'",
                detail=f"{declared[0].value}: {type(error).__name__}: {error}",
                hint="install a version of the package that fits this version of Penstock, and what it depends on",
            ) from error
        return made

    def _unknown(self, name: str) -> ConfigurationError:
        known = self.names()
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else None
        if not any(_package(each) == DISTRIBUTION for each in self._entry_points()):
            hint = _NOT_INSTALLED.format(kind=self._kind)
        return ConfigurationError(
            f"unknown {self._kind} '{name}'",
            detail=f"available {self._kind}s: {', '.join(known) or 'none'}",
            hint=hint,
        )

    def _entry_points(self) -> list[EntryPoint]:
        # Reading the metadata of all packages takes some ten milliseconds, which only programs with tables pay for.
        from importlib.metadata import entry_points

        return list(entry_points(group=f"penstock.{self._kind}s"))


def _package(entry_point: EntryPoint) -> str:
    return "" if entry_point.dist is None else entry_point.dist.name
