"""Base classes of the nodes of a physical plan.

A node describes itself: what the planner, EXPLAIN, checkpoints and the translation to a job ask of it are methods of
`PhysicalNode`, with the answers that suit most nodes. `penstock.sql.physical.operators` has a module for each node.
Properties that depend on the whole plan, such as whether a node emits -U rows, are decided last: `settle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.state_description import StateDescription, Text
from penstock.sql.expr.nodes import InputRef
from penstock.sql.logical.nodes import Schema

if TYPE_CHECKING:
    from penstock.graph.transformations import Transformation
    from penstock.sql.physical.lineage import Lineage
    from penstock.sql.physical.operators.window_table_function import WindowInput
    from penstock.sql.physical.translate import Translation

Columns = tuple[int, ...]

Key = frozenset[int]
Keys = frozenset[Key]


@dataclass(frozen=True, slots=True)
class ChangelogTraits:
    """The kinds of rows besides inserts. `before`: updates come with -U rows."""

    updates: bool = False
    deletes: bool = False
    before: bool = True

    @property
    def retracts(self) -> bool:
        """Whether there are rows other than inserts."""
        return self.updates or self.deletes

    def __str__(self) -> str:
        update = (["UB"] if self.before else []) + ["UA"] if self.updates else []
        return f"[{','.join(['I', *update, *(['D'] if self.deletes else [])])}]"


INSERTS = ChangelogTraits()
EVERYTHING = ChangelogTraits(updates=True, deletes=True)


@dataclass(frozen=True, slots=True)
class WindowAttributes:
    """Where rows carry the window that they belong to. `zone`: the session time zone if windows are over TIMESTAMP_LTZ.

    `starts_differ`, `ends_differ`: two windows never have the same start, or end. Those of CUMULATE share starts; sessions of different keys may share either.
    """

    start: int
    end: int
    zone: str | None = None
    rowtime: bool = True
    starts_differ: bool = True
    ends_differ: bool = True

    def keys(self, key: Key) -> list[Key]:
        """Return the keys of rows that are identified by a key and their window."""
        bounds = ((self.start, self.starts_differ), (self.end, self.ends_differ))
        found = [key | {bound} for bound, differs in bounds if differs]
        return found or [key | {self.start, self.end}]


@dataclass(frozen=True, slots=True)
class PhysicalTraits:
    """Properties of the rows of a node.

    `keys`: each is a set of columns by which changes of a row are known and in order (Flink's upsert keys). The empty set: there is one row at most.
    """

    changes: ChangelogTraits = INSERTS
    keys: Keys = frozenset()
    bounded: bool = False
    window: WindowAttributes | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalNode:
    """Base of all nodes. A node that two others read is one object."""

    # Whether changes of its inputs pass through it as they are, -U rows included.
    passes_changes: ClassVar[bool] = False
    # Whether it writes a table, which ends a plan.
    is_sink: ClassVar[bool] = False

    schema: Schema
    traits: PhysicalTraits
    inputs: tuple[PhysicalNode, ...] = ()

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of all columns."""
        return tuple(each.type for each in self.schema)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [each.name for each in self.schema]

    @property
    def input_names(self) -> list[str]:
        """The names of the columns of its inputs, one input after another."""
        return [name for each in self.inputs for name in each.names]

    def renamed(self, schema: Schema) -> PhysicalNode:
        """Return the node with the names of these columns."""
        fields = tuple(
            replace(field, name=named.name)
            for field, named in zip(self.schema, schema, strict=True)
        )
        return replace(self, schema=fields)

    # EXPLAIN

    @property
    def name(self) -> str:
        """Its name in plans and in the web UI."""
        return type(self).__name__.removeprefix("Physical")

    def describe(self) -> list[str]:
        """Return the parts of its description in plans."""
        return []

    @property
    def line(self) -> str:
        """The node as one line: its name and description."""
        return f"{self.name}({', '.join(self.describe())})"

    @property
    def shown(self) -> PhysicalNode:
        """The node that plans show in its place."""
        return self

    @property
    def changelog_mode(self) -> str:
        """The kinds of rows that it emits, as plans show them."""
        return str(self.traits.changes)[1:-1]

    def advice(self) -> list[str]:
        """Return advice on the node, for EXPLAIN PLAN_ADVICE."""
        return []

    # Changelog

    def needs_update_before(self, wanted: bool) -> bool:
        """Whether it needs the -U rows of its inputs; `wanted`: a downstream node needs those that it emits."""
        return wanted if self.passes_changes else True

    def settle(self, inputs: tuple[PhysicalNode, ...], wanted: bool) -> PhysicalNode:
        """Return the node of the final plan. `inputs` are final; `wanted`: a downstream node needs its -U rows."""
        changes = self.traits.changes
        if not changes.updates or not inputs:
            return replace(self, inputs=inputs)
        inputs = self.settle_inputs(inputs)
        before = changes.before and any(each.emits_update_before for each in inputs)
        deletes = any(each.traits.changes.deletes for each in self.changing(inputs))
        changes = replace(changes, before=before, deletes=deletes)
        return replace(self, inputs=inputs, traits=replace(self.traits, changes=changes))

    def settle_inputs(self, inputs: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
        """Return final inputs without the changes that the node must not get."""
        return inputs

    def changing(self, inputs: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
        """Return the inputs whose changes the node emits: of several, the first."""
        return inputs[:1]

    @property
    def emits_update_before(self) -> bool:
        """Whether its updates come with -U rows."""
        return self.traits.changes.updates and self.traits.changes.before

    @property
    def loses_updates(self) -> bool:
        """Whether a filter may leave out the +U row of an update and not its -U row, which then stands for a delete."""
        if not self.passes_changes or not self.traits.changes.updates:
            return False
        return any(each.loses_updates for each in self.inputs)

    def with_all_versions(self) -> PhysicalNode:
        """Return a node that emits each version of a row, even one that is replaced within a batch."""
        return self

    # Distribution and time

    @property
    def key_columns(self) -> Columns:
        """The columns that rows are sent by, if the node is an exchange by key: readers are keyed by them."""
        return ()

    @property
    def before_exchange(self) -> PhysicalNode:
        """Its rows before they are sent: the input of an exchange, any other node itself."""
        return self

    @property
    def hashed_by(self) -> set[Columns]:
        """Lists of columns whose values, in this order, are the key that rows were sent by."""
        return set()

    def is_hashed_by(self, columns: Sequence[int]) -> bool:
        """Whether rows are at the subtasks of the keys that these columns are, and need not be sent there."""
        return bool(columns) and tuple(columns) in self.hashed_by

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return a parallelism of its own, given those of its inputs; None: that of the job.

        Without an exchange a node runs as its input does, because rows must stay in their order.
        """
        return of_inputs[0] if of_inputs else None

    @property
    def has_watermarks(self) -> bool:
        """Whether watermarks are emitted by it or below it."""
        return any(each.has_watermarks for each in self.inputs)

    def before_windows(self, zone: str) -> WindowInput | None:
        """Return its rows as they are before a window table function below, with what is computed above it; None if that uses windows."""
        return None

    # State

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return what each column is computed from: by default, the columns of the input."""
        return lineage.columns(self.inputs[0])

    # Job

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Return the last of the transformations that run the node; `inputs`: those of its inputs."""
        return inputs[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalOperator(PhysicalNode):
    """One operator: its spec contains everything that a task needs. `single`: it runs with parallelism 1."""

    spec: OperatorSpec
    single: bool = False

    @classmethod
    def of(
        cls,
        spec: Any,
        inputs: Sequence[PhysicalNode],
        schema: Schema,
        traits: PhysicalTraits,
        *,
        single: bool = False,
    ) -> Self:
        """Return the operator with this spec; it is bounded if all inputs are."""
        traits = replace(traits, bounded=all(each.traits.bounded for each in inputs))
        return cls(spec=spec, inputs=tuple(inputs), schema=schema, traits=traits, single=single)

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return 1 if it is single."""
        return 1 if self.single else PhysicalNode.parallelism(self, of_inputs)

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the columns of the inputs and, for columns that the operator appends, its name.

        A SEMI or ANTI join has no columns of its right input.
        """
        below = [text for each in self.inputs for text in lineage.columns(each)]
        more = self.schema[len(below) :]
        return [*below[: len(self.schema)], *((self.name,) for _ in more)]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return what decides the meaning or the layout of its state, by name: see `penstock.graph.state_description`."""
        raise NotImplementedError(f"{type(self).__name__} has state, but no state_parts()")

    def state_description(self, lineage: Lineage) -> StateDescription | None:
        """Return the description of its state, which a restore compares; None if it has none.

        It leaves out what may change between two runs: names of columns, filters, the kinds of changes that are sent on,
        how long state is kept (but not whether it expires), and whether an aggregation has one phase or two.
        """
        if not self.spec.state_tables and not self.spec.operator_states:
            return None
        kind = type(self.spec).__name__.removeprefix("Columnar").removesuffix("Spec")
        parts = {name: text for name, text in self.state_parts(lineage).items() if text}
        return StateDescription(kind, parts, lineage.tables_of(parts.values()))

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Return one transformation, keyed by the columns that its inputs are sent by."""
        return job.operator(
            self,
            self.spec,
            inputs,
            keys=[each.key_columns for each in self.inputs],
            state_description=self.state_description(job.lineage),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalUpdatingOperator(PhysicalOperator):
    """An operator that emits updates of its own. Its spec has a field `update_before`: whether -U rows are emitted."""

    def settle(self, inputs: tuple[PhysicalNode, ...], wanted: bool) -> PhysicalNode:
        """Return an operator that emits -U rows if they are needed."""
        spec: Any = replace(self.spec, update_before=wanted)  # type: ignore[call-arg]
        changes = replace(self.traits.changes, before=wanted)
        return replace(self, inputs=inputs, spec=spec, traits=replace(self.traits, changes=changes))


def inputs_first(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    """Return all nodes of a plan, each once and after its inputs."""
    ordered: list[PhysicalNode] = []
    seen: set[int] = set()

    def visit(node: PhysicalNode) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for each in node.inputs:
            visit(each)
        ordered.append(node)

    for root in roots:
        visit(root)
    return ordered


def ref(node: PhysicalNode, index: int) -> InputRef:
    """Return one column of a node's rows."""
    return InputRef(node.schema[index].type, index)
