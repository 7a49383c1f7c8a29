"""Transformations: the tree that API calls build, each node pointing back to its inputs.

Physical transformations (source, operator, sink) become nodes of the StreamGraph. Partition, union and side output are
virtual:
they only determine how their consumers are connected.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.partitioning import Partitioning
from penstock.graph.state_description import StateDescription

_ids = itertools.count(1)


@dataclass(eq=False, slots=True)
class Transformation:
    """One step of a program.

    Attributes without defaults are set once; user settings may change until the program is executed.
    """

    name: str
    inputs: Sequence[Transformation] = ()
    output_type: Any = None  # TypeInformation, or None where it is not declared
    parallelism: int | None = None  # None: the environment's default
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    slot_sharing_group: str | None = None
    description: str | None = None
    buffer_timeout: int | None = None
    id: int = field(default_factory=lambda: next(_ids))


@dataclass(eq=False, slots=True)
class OperatorTransformation(Transformation):
    """A source, an operator or a sink.

    `chaining` is one of ALWAYS (chain to the input where the rules allow it), HEAD (start a new chain) and NEVER.
    `key_selectors` has an
    entry per input: the key selector of a keyed input, else None.
    """

    spec: OperatorSpec = field(default_factory=OperatorSpec)
    chaining: str = "ALWAYS"
    key_selectors: Sequence[Any] = ()
    kind: str = "operator"  # "source", "operator" or "sink"
    side_types: dict[str, Any] = field(
        default_factory=dict
    )  # declared types of side outputs, by tag
    parallelism_fixed: bool = False  # non-parallel operators reject another parallelism
    state_description: StateDescription | None = None  # compared on restore, if set


@dataclass(eq=False, slots=True)
class PartitionTransformation(Transformation):
    """Virtual: the partitioning between the input and its consumers."""

    partitioning: Partitioning = field(default_factory=Partitioning)


@dataclass(eq=False, slots=True)
class UnionTransformation(Transformation):
    """Virtual: several inputs as one."""


@dataclass(eq=False, slots=True)
class SideOutputTransformation(Transformation):
    """Virtual: the side output `tag_id` of the input."""

    tag_id: str = ""
