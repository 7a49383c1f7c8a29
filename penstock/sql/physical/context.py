"""Context shared by the modules that build physical nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.errors import UnsupportedOperationError
from penstock.sql.errors import SqlError
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.physical.nodes import PhysicalNode
from penstock.sql.physical.settings import PlannerSettings

Implement = Callable[[Any, "PhysicalPlanContext"], PhysicalNode]
Implementing = TypeVar("Implementing", bound=Implement)

#: By the type of the logical node.
IMPLEMENTATIONS: dict[type[LogicalNode], Implement] = {}


def implements(*nodes: type[LogicalNode]) -> Callable[[Implementing], Implementing]:
    """Register the function that makes physical nodes of these logical ones. The last one registered counts."""

    def register(how: Implementing) -> Implementing:
        IMPLEMENTATIONS.update(dict.fromkeys(nodes, how))
        return how

    return register


class PhysicalPlanContext:
    """Settings, and the physical nodes by logical node: a shared node is built once."""

    def __init__(self, settings: PlannerSettings) -> None:
        self.settings = settings
        self._made: dict[int, tuple[LogicalNode, PhysicalNode]] = {}
        self._failed = False

    @property
    def zone(self) -> str:
        """The session time zone."""
        return self.settings.zone

    def implement(self, node: LogicalNode) -> PhysicalNode:
        """Return how a logical node is run."""
        made = self._made.get(id(node))
        if made is None:
            how = IMPLEMENTATIONS.get(type(node))
            if how is None:
                raise UnsupportedOperationError(
                    f"{type(node).__name__.removeprefix('Logical')} is not supported in a query"
                )
            made = self._made[id(node)] = (node, self._made_by(how, node))
        return made[1]

    def _made_by(self, how: Implement, node: LogicalNode) -> PhysicalNode:
        try:
            return how(node, self)
        except SqlError as error:
            if not self._failed and node.place is not None:
                error.at(node.place.position, node.place.statement, node.place.length)
            self._failed = True  # the error belongs to this node, not to those around it
            raise
