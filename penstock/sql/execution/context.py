"""What the statements and the Table API of one TableEnvironment work on."""

from __future__ import annotations

import itertools
from typing import Any

from penstock.catalogs.manager import CatalogManager
from penstock.catalogs.tables import ResolvedView, TablePath
from penstock.sql.execution.parsing import parse_query
from penstock.sql.execution.planner import Executor, Planner
from penstock.sql.execution.started_jobs import StartedJobs
from penstock.sql.execution.table_config import TableConfig
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.parse.statements import QueryStatement
from penstock.sql.table_api.expression import quoted_name


class StatementContext:
    """Catalogs, options, planner and started jobs, and names for functions and plans of the program."""

    def __init__(self, catalogs: CatalogManager, config: TableConfig, executor: Executor) -> None:
        self.catalogs = catalogs
        self.config = config
        self.planner = Planner(catalogs, config, executor)
        self.jobs = StartedJobs()
        self._numbers = itertools.count()
        #: By identity, with the function itself, so that no other gets the same one.
        self._functions: dict[int, tuple[str, Any]] = {}

    def parse_query(self, text: str) -> QueryStatement:
        """Return a query that the Table API wrote."""
        from penstock.sql.parse.trees import concatenate_with_plus

        query = parse_query(text)
        concatenate_with_plus(query.tree)
        return query

    def query(self, text: str) -> LogicalNode:
        """Return the logical plan of a query that the Table API wrote."""
        return self.planner.query(self.parse_query(text))

    def next_number(self) -> int:
        """Return a number for the name of an object of the program."""
        return next(self._numbers)

    def name_function(self, function: object) -> str:
        """Return the name that statements have for a function of the program; it is registered when it is first used."""
        from penstock.sql.table_api.udf import as_user_function

        known = self._functions.get(id(function))
        if known is None:
            name = f"*{getattr(function, 'name', 'function')}${self.next_number()}*"
            self.catalogs.add_system_function(name, as_user_function(name, function))
            known = self._functions[id(function)] = (name, function)
        return quoted_name(known[0])

    def name_plan(self, plan: LogicalNode) -> str:
        """Return the name that statements have for a plan of the program."""
        view = ResolvedView(TablePath("", "", ""), None, "", bound=lambda: plan)
        return self.catalogs.add_unnamed(view)
