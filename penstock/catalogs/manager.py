"""CatalogManager: all catalogs of an environment, the current one, and temporary objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.catalogs.in_memory import (
    CatalogStore,
    Database,
    TableOrView,
    missing_database,
)
from penstock.catalogs.reader import UserFunction
from penstock.catalogs.tables import ResolvedTable, ResolvedView, TablePath
from penstock.sql.errors import ValidationError, did_you_mean


class CatalogManager:
    """Resolves and registers the objects of statements.

    Temporary tables, views and functions stand in front of those of catalogs with the same name. System functions have no catalog, and
    no case: they stand in front of all.
    """

    def __init__(self, built_in: CatalogStore) -> None:
        self._catalogs: dict[str, CatalogStore] = {built_in.name: built_in}
        self.current_catalog = built_in.name
        self.current_database = built_in.default_database
        self._temporary: dict[TablePath, TableOrView] = {}
        self._temporary_functions: dict[TablePath, UserFunction] = {}
        self._system_functions: dict[str, UserFunction] = {}
        self._unnamed: dict[str, TableOrView] = {}
        self._numbers = itertools.count()

    # Catalogs

    def catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        return list(self._catalogs)

    def catalog(self, name: str) -> CatalogStore:
        """Return a catalog; refuse a name that none has."""
        found = self._catalogs.get(name)
        if found is None:
            raise ValidationError(
                f"catalog '{name}' does not exist",
                hint=did_you_mean(name, self._catalogs)
                or "SHOW CATALOGS lists the catalogs; CREATE CATALOG creates one",
            )
        return found

    def has_catalog(self, name: str) -> bool:
        """Whether there is a catalog with this name."""
        return name in self._catalogs

    def add_catalog(self, name: str, catalog: CatalogStore) -> None:
        """Add a catalog."""
        if name in self._catalogs:
            raise ValidationError(
                f"catalog '{name}' already exists", hint="DROP CATALOG removes it"
            )
        self._catalogs[name] = catalog

    def drop_catalog(self, name: str) -> None:
        """Remove a catalog; the current one stays."""
        self.catalog(name)
        if name == self.current_catalog:
            raise ValidationError(
                f"catalog '{name}' is in use", hint="switch with USE CATALOG before dropping it"
            )
        del self._catalogs[name]
        for objects in (self._temporary, self._temporary_functions):
            for path in [path for path in objects if path.catalog == name]:
                del objects[path]

    def use_catalog(self, name: str) -> None:
        """Look names up in a catalog from now on, in its default database."""
        self.current_database = self.catalog(name).default_database
        self.current_catalog = name

    def use_database(self, name: Sequence[str]) -> None:
        """Look names up in a database from now on."""
        catalog, database = self.database_path(name)
        self.database(catalog, database)
        self.current_catalog, self.current_database = catalog, database

    # Databases

    def database_path(self, name: Sequence[str]) -> tuple[str, str]:
        """Return the catalog and the database that a name means."""
        if len(name) > 2 or not name:
            raise ValidationError(
                f"invalid database name '{'.'.join(name)}'", hint="write catalog.database"
            )
        return (self.current_catalog, name[0]) if len(name) == 1 else (name[0], name[1])

    def database(self, catalog: str, name: str) -> Database:
        """Return a database; refuse a name that none has."""
        store = self.catalog(catalog)
        found = store.database(name)
        if found is None:
            raise missing_database(catalog, name, store.databases())
        return found

    # Tables and views

    def qualify(
        self, name: Sequence[str], catalog: str | None = None, database: str | None = None
    ) -> TablePath:
        """Return where the object with this name is, or would be."""
        catalog = catalog or self.current_catalog
        database = database or self.current_database
        if len(name) == 1:
            return TablePath(catalog, database, name[0])
        if len(name) == 2:
            return TablePath(catalog, name[0], name[1])
        if len(name) == 3:
            return TablePath(name[0], name[1], name[2])
        raise ValidationError(
            f"invalid table name '{'.'.join(name)}'", hint="write catalog.database.table"
        )

    def find(self, path: TablePath) -> TableOrView | None:
        """Return the table or view that is there, a temporary one first."""
        if path in self._temporary:
            return self._temporary[path]
        store = self._catalogs.get(path.catalog)
        database = None if store is None else store.database(path.database)
        found = None if database is None else database.tables.get(path.name)
        return self._unnamed.get(path.name) if found is None else found

    def get(self, name: Sequence[str]) -> TableOrView:
        """Return the table or view with this name; refuse a name that none has."""
        path = self.qualify(name)
        found = self.find(path)
        if found is None:
            raise self.missing(path)
        return found

    def missing(self, path: TablePath) -> ValidationError:
        """Return the error for a table that does not exist, with the nearest name."""
        known = self.tables(path.catalog, path.database, strict=False)
        return ValidationError(
            f"table or view {path} does not exist",
            hint=did_you_mean(path.name, known) or "SHOW TABLES lists the tables",
        )

    def is_temporary(self, path: TablePath) -> bool:
        """Whether the object with this name is temporary."""
        return path in self._temporary

    def create(
        self,
        table: TableOrView,
        *,
        temporary: bool,
        ignore_if_exists: bool,
        replace_it: bool = False,
    ) -> bool:
        """Register a table or view under its path; return whether it was created."""
        path = table.path
        existing = self._temporary.get(path) if temporary else self._permanent(path)
        if existing is not None and not replace_it:
            if ignore_if_exists:
                return False
            kind = "view" if isinstance(existing, ResolvedView) else "table"
            raise ValidationError(
                f"{'temporary ' if temporary else ''}{kind} {path} already exists",
                hint=f"drop it first, or use CREATE {kind.upper()} IF NOT EXISTS",
            )
        if temporary:
            self._temporary[path] = table
        else:
            self.database(path.catalog, path.database)
            self.catalog(path.catalog).put_table(path, table)
        return True

    def change(self, path: TablePath, table: TableOrView) -> None:
        """Put a changed table or view in the place of the old one."""
        if path in self._temporary:
            self._temporary[path] = table
        else:
            self.catalog(path.catalog).put_table(path, table)

    def rename(self, path: TablePath, new: TablePath) -> None:
        """Give a table or view another name."""
        found = self.find(path)
        if found is None:
            raise self.missing(path)
        if self.find(new) is not None:
            raise ValidationError(f"table or view {new} already exists")
        renamed = replace(found, path=new)
        if path in self._temporary:
            del self._temporary[path]
            self._temporary[new] = renamed
        else:
            self.catalog(new.catalog).put_table(new, renamed)
            self.catalog(path.catalog).drop_table(path)

    def drop(
        self,
        path: TablePath,
        kind: type[ResolvedTable | ResolvedView],
        *,
        temporary: bool,
        if_exists: bool,
    ) -> bool:
        """Remove a table or a view; return whether there was one."""
        word = "view" if kind is ResolvedView else "table"
        found = self._temporary.get(path) if temporary else self._permanent(path)
        if found is None or not isinstance(found, kind):
            if if_exists:
                return False
            raise self._not_dropped(path, word, temporary=temporary, found=found)
        if not temporary and path in self._temporary:
            raise ValidationError(
                f"temporary {word} {path} shadows the permanent one",
                hint=f"run DROP TEMPORARY {word.upper()} first",
            )
        if temporary:
            del self._temporary[path]
        else:
            self.catalog(path.catalog).drop_table(path)
        return True

    def _not_dropped(
        self, path: TablePath, word: str, *, temporary: bool, found: TableOrView | None
    ) -> ValidationError:
        other = "table" if word == "view" else "view"
        if found is not None:
            return ValidationError(f"{path} is a {other}", hint=f"use DROP {other.upper()} instead")
        if not temporary and path in self._temporary:
            return ValidationError(
                f"{path} is temporary", hint=f"use DROP TEMPORARY {word.upper()} instead"
            )
        known = self.tables(path.catalog, path.database, strict=False)
        return ValidationError(
            f"{'temporary ' if temporary else ''}{word} {path} does not exist",
            hint=did_you_mean(path.name, known),
        )

    def _permanent(self, path: TablePath) -> TableOrView | None:
        store = self._catalogs.get(path.catalog)
        database = None if store is None else store.database(path.database)
        return None if database is None else database.tables.get(path.name)

    def tables(
        self, catalog: str | None = None, database: str | None = None, *, strict: bool = True
    ) -> list[str]:
        """Return the names of all tables and views of a database, in order."""
        return sorted(name for name, _ in self._objects(catalog, database, strict=strict))

    def views(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        """Return the names of the views of a database."""
        objects = self._objects(catalog, database)
        return sorted(name for name, each in objects if isinstance(each, ResolvedView))

    def temporary(self, kind: type[TableOrView]) -> list[str]:
        """Return the names of the temporary tables, or views, of the current database."""
        here = (self.current_catalog, self.current_database)
        return sorted(
            path.name
            for path, each in self._temporary.items()
            if isinstance(each, kind) and (path.catalog, path.database) == here
        )

    def _objects(
        self, catalog: str | None, database: str | None, *, strict: bool = True
    ) -> Iterator[tuple[str, TableOrView]]:
        catalog = catalog or self.current_catalog
        database = database or self.current_database
        shown = {
            path.name: each
            for path, each in self._temporary.items()
            if (path.catalog, path.database) == (catalog, database)
        }
        if strict:
            permanent: dict[str, TableOrView] = self.database(catalog, database).tables
        else:
            store = self._catalogs.get(catalog)
            known = None if store is None else store.database(database)
            permanent = {} if known is None else known.tables
        yield from {**permanent, **shown}.items()

    def add_unnamed(self, view: ResolvedView) -> str:
        """Keep a Table of the program under a name that its SQL can use; return the name."""
        name = f"UnnamedTable${next(self._numbers)}"
        self._unnamed[name] = replace(view, path=self.qualify([name]))
        return name

    def add_anonymous(self, table: ResolvedTable) -> None:
        """Keep a table that only the program knows: no list shows it."""
        self._unnamed[table.path.name] = table

    # Functions

    def add_system_function(self, name: str, function: UserFunction) -> None:
        """Keep a function that has no catalog."""
        self._system_functions[name.lower()] = function

    def drop_system_function(self, name: str) -> bool:
        """Remove a function that has no catalog; return whether there was one."""
        return self._system_functions.pop(name.lower(), None) is not None

    def has_system_function(self, name: str) -> bool:
        """Whether there is a user function without catalog of this name."""
        return name.lower() in self._system_functions

    def add_function(self, path: TablePath, function: UserFunction, *, temporary: bool) -> None:
        """Keep a function."""
        path = _folded(path)
        if temporary:
            self._temporary_functions[path] = function
        else:
            self.database(path.catalog, path.database)
            self.catalog(path.catalog).put_function(path, function)

    def has_function(self, path: TablePath, *, temporary: bool) -> bool:
        """Whether there is such a function, temporary or of the catalog."""
        path = _folded(path)
        return (
            path in self._temporary_functions
            if temporary
            else self._catalog_function(path) is not None
        )

    def drop_function(self, path: TablePath, *, temporary: bool) -> bool:
        """Remove a function; return whether there was one."""
        path = _folded(path)
        if temporary:
            return self._temporary_functions.pop(path, None) is not None
        if self._catalog_function(path) is None:
            return False
        self.catalog(path.catalog).drop_function(path)
        return True

    def find_function(
        self, name: Sequence[str], catalog: str | None = None, database: str | None = None
    ) -> UserFunction | None:
        """Return the user's function with this name, or None."""
        if len(name) == 1 and name[0].lower() in self._system_functions:
            return self._system_functions[name[0].lower()]
        if len(name) > 3:
            return None
        path = _folded(self.qualify(name, catalog, database))
        found = self._temporary_functions.get(path)
        return self._catalog_function(path) if found is None else found

    def _catalog_function(self, path: TablePath) -> UserFunction | None:
        store = self._catalogs.get(path.catalog)
        database = None if store is None else store.database(path.database)
        return None if database is None else database.functions.get(path.name)

    def functions(self) -> list[str]:
        """Return the names of the user's functions that can be called here without more ado."""
        here = (self.current_catalog, self.current_database)
        temporary = {
            path.name for path in self._temporary_functions if (path.catalog, path.database) == here
        }
        permanent = self.database(*here).functions
        named = {name for name in self._system_functions if not name.startswith("*")}
        return sorted({*named, *temporary, *permanent})

    def reader(self) -> CatalogView:
        """Return the catalog interface of the planner."""
        return CatalogView(self, self.current_catalog, self.current_database)


class CatalogView:
    """The catalogs as the planner sees them from a current database."""

    def __init__(self, manager: CatalogManager, catalog: str, database: str) -> None:
        self._manager = manager
        self._catalog = catalog
        self._database = database

    def find_table(self, name: Sequence[str]) -> TableOrView | None:
        """Return the table or view of this name, or None."""
        if not 1 <= len(name) <= 3:
            return None
        return self._manager.find(self._manager.qualify(name, self._catalog, self._database))

    def find_function(self, name: Sequence[str]) -> UserFunction | None:
        """Return the user's function of this name, or None."""
        return self._manager.find_function(name, self._catalog, self._database)

    def table_names(self) -> list[str]:
        """Return the names of the tables and views here."""
        return self._manager.tables(self._catalog, self._database, strict=False)

    def function_names(self) -> list[str]:
        """Return the names of the user's functions that can be called here."""
        return self._manager.functions()

    @property
    def here(self) -> tuple[str, str]:
        """The catalog and the database."""
        return self._catalog, self._database

    def at(self, catalog: str, database: str) -> CatalogView:
        """Return the same catalogs, seen from another place."""
        return CatalogView(self._manager, catalog or self._catalog, database or self._database)


def _folded(path: TablePath) -> TablePath:
    """Return where a function is: the names of functions have no case."""
    return TablePath(path.catalog, path.database, path.name.lower())
