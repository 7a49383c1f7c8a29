"""The trees of queries and expressions: sqlglot's nodes, and nodes of our own for what sqlglot has none for.

What the parser promises to those who read its trees:

Expressions
    Every call of a function is `exp.Anonymous(this=name as written, expressions=operands)`, whatever the
    function: COUNT, SUM, COALESCE, IF, UPPER, TUMBLE_START, ... `function_path` gives the parts of a
    qualified name. ARRAY[...], MAP[...] and ROW(...) are calls of ARRAY, MAP and ROW; CURRENT_TIMESTAMP and
    its kin are calls without operands; POSITION(a IN b), SUBSTRING(s FROM i FOR n) and OVERLAY(s PLACING r FROM i FOR n)
    are calls with their operands in that order. Symbols are `exp.Var`: EXTRACT(unit FROM x) is
    `exp.Extract(this=Var, expression=x)`, CEIL(x TO unit) and FLOOR have a Var as second operand,
    TIMESTAMPADD and TIMESTAMPDIFF as first. TRIM is `exp.Trim(this=text, position="BOTH"|"LEADING"|"TRAILING", expression=characters or None)`
    if written with a place or FROM, otherwise a call.
    COUNT(*) has an `exp.Star` operand; f(DISTINCT a, b) is `Anonymous(expressions=[Distinct(expressions=[a, b])])`.
    Around a call, from the inside to the outside: `IgnoreNulls`/`RespectNulls`, `WithinGroup(expression=Order)`, `Filter(expression=Where)`, `Window`.
    Literals: `Literal`, `Null`, `Boolean`; dates and times are `TypedLiteral`; intervals `exp.Interval(this=Literal, unit=Var or
    IntervalSpan)` with the sign in the text (see `penstock.sql.parse.literals.interval_of`).
    NOT LIKE, NOT IN, NOT BETWEEN, IS NOT NULL, IS NOT TRUE are `Not(...)`. LIKE with ESCAPE is `Escape(this=Like, expression=Literal)`; SIMILAR TO the same.
    IS DISTINCT FROM is `NullSafeNEQ`, IS NOT DISTINCT FROM `NullSafeEQ`. IS UNKNOWN is IS NULL. IS JSON is `IsJson`.
    `a || b` is `DPipe`, `a % b` `Mod`, `-a` `Neg`, `(a, b)` `Tuple`, `(a)` `Paren`, `a[i]` `Bracket`.
    Names with dots are `Column(this, table, db, catalog)` by position, as sqlglot has it, whatever the parts turn out to be; see `name_parts`.
    Subqueries: scalar `Subquery(this=query)`, `In(this, query=Subquery)`, `Exists(this=query)`, comparisons with `Any(this=Subquery)`, `All(this=Subquery)`.
    CAST and TRY_CAST are `Cast`, `TryCast` with `to=TypeName`.

Queries
    `Select`, `Values`, `Union`/`Intersect`/`Except` (`distinct` False for ALL), `Subquery` for every query in parentheses, in FROM too (VALUES as well).
    Joins are `Select.args["joins"]`: `Join(this, side, kind, method, on, using)`; a comma is a Join without side, kind and condition.
    Joins in parentheses: `Subquery(this=first relation with args["joins"])`. ORDER BY: `Ordered(this, desc, nulls_first)`, `nulls_first` None if not given. FETCH FIRST is LIMIT.
    GROUP BY: `Group.expressions`, among them `GroupingSets`, `Rollup`, `Cube`, whose elements are expressions or `Tuple`s.
    Relations: `Table(this, db, catalog, version=Version(expression), alias)`, `Subquery`, `Unnest(expressions, offset=WITH ORDINALITY, alias)`,
    `Lateral(this=call or Subquery, alias)` for LATERAL TABLE(f(x)) and LATERAL (query), `TableFunctionCall`, `MatchRecognize`.
    Hints are in `hints_of(tree)` of a relation or a Select.

Every node knows where it is written: `position_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.errors import Position
from penstock.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Hint:
    """NAME('key' = 'value', ...) or NAME(a, b): `options` or `arguments`. Names are in upper case."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    position: Position | None = None


class TypeName(exp.Expression):
    """A type, as after CAST(x AS ...): `this` is a penstock.sql.types.DataType."""

    arg_types = {"this": True}

    @property
    def data_type(self) -> DataType:
        """The type itself."""
        kind: DataType = self.args["this"]
        return kind


class TypedLiteral(exp.Expression):
    """DATE '...', TIME '...', TIMESTAMP '...' or TIMESTAMP_LTZ '...': `this` is the text, `kind` the word before it."""

    arg_types = {"this": True, "kind": True}


class HexLiteral(exp.Expression):
    """X'1F': `this` are the hexadecimal digits."""

    arg_types = {"this": True}


class Difference(exp.Expression):
    """(a - b) DAY TO SECOND, an interval: `unit` is an exp.Var or exp.IntervalSpan."""

    arg_types = {"this": True, "expression": True, "unit": True}


class Descriptor(exp.Expression):
    """DESCRIPTOR(a, b): `expressions` are Identifiers."""

    arg_types = {"expressions": True}


class TableArgument(exp.Expression):
    """TABLE t [PARTITION BY ...] [ORDER BY ...] as an operand: `this` is a Table or Subquery, `order` an exp.Order."""

    arg_types = {"this": True, "partition_by": False, "order": False}


class DefaultArgument(exp.Expression):
    """DEFAULT as an operand. Named operands are exp.Kwarg(this=Identifier, expression)."""

    arg_types: ClassVar[dict[str, bool]] = {}


class TableFunctionCall(exp.Expression):
    """TABLE(f(...)) in FROM: window table functions and others. `this` is the call, whose operands may be TableArgument, Descriptor, Kwarg, Interval."""

    arg_types = {"this": True, "alias": False, "joins": False}


class IsJson(exp.Expression):
    """x IS JSON [VALUE | OBJECT | ARRAY | SCALAR]: `kind` is VALUE by default."""

    arg_types = {"this": True, "kind": True}


class JsonExists(exp.Expression):
    """JSON_EXISTS(this, path [TRUE | FALSE | UNKNOWN | ERROR ON ERROR])."""

    arg_types = {"this": True, "path": True, "on_error": False}


class JsonValue(exp.Expression):
    """JSON_VALUE(this, path [RETURNING type] [on_empty ON EMPTY] [on_error ON ERROR]).

    `returning` is a TypeName. `on_empty` and `on_error`: "NULL", "ERROR" or an expression (DEFAULT ...); None if not given.
    """

    arg_types = {
        "this": True,
        "path": True,
        "returning": False,
        "on_empty": False,
        "on_error": False,
    }


class JsonQuery(exp.Expression):
    """JSON_QUERY(this, path [RETURNING type] [WITH ... WRAPPER] [... ON EMPTY] [... ON ERROR]).

    `wrapper`: WITHOUT, CONDITIONAL or UNCONDITIONAL. `on_empty`, `on_error`: NULL, EMPTY ARRAY, EMPTY OBJECT, ERROR; None if not given.
    """

    arg_types = {
        "this": True,
        "path": True,
        "returning": False,
        "wrapper": False,
        "on_empty": False,
        "on_error": False,
    }


class JsonObject(exp.Expression):
    """JSON_OBJECT(KEY k VALUE v, ...) and JSON_OBJECTAGG (`aggregate`): `expressions` are Tuples of key and value. `on_null`: NULL or ABSENT; None if not given."""

    arg_types = {"expressions": False, "on_null": False, "aggregate": False}


class JsonArray(exp.Expression):
    """JSON_ARRAY(v, ...) and JSON_ARRAYAGG (`aggregate`, with one expression). `on_null`: NULL or ABSENT; None if not given."""

    arg_types = {"expressions": False, "on_null": False, "aggregate": False}


class MatchRecognize(exp.Expression):
    """relation MATCH_RECOGNIZE (...).

    `this` is the relation, `partition_by` expressions, `order` an exp.Order, `measures` exp.Aliases,
    `rows` ONE ROW PER MATCH or ALL ROWS PER MATCH (None if not given), `after` an AfterMatch or None, `pattern` one of the
    Pattern nodes, `within` an exp.Interval, `subsets` exp.Aliases of Tuples, `define` exp.Aliases (condition AS variable).
    `start` and `end`: anchors ^ and $.
    """

    arg_types = {
        "this": True,
        "partition_by": False,
        "order": False,
        "measures": False,
        "rows": False,
        "after": False,
        "pattern": True,
        "start": False,
        "end": False,
        "within": False,
        "subsets": False,
        "define": False,
        "alias": False,
        "joins": False,
    }


class AfterMatch(exp.Expression):
    """AFTER MATCH SKIP: `this` is NEXT ROW, PAST LAST ROW, FIRST or LAST; then `variable` (a str)."""

    arg_types = {"this": True, "variable": False}


class PatternVariable(exp.Expression):
    """A variable of a pattern; `this` is its name."""

    arg_types = {"this": True}


class PatternSequence(exp.Expression):
    """One pattern after the other."""

    arg_types = {"expressions": True}


class PatternChoice(exp.Expression):
    """One pattern or the other: A | B."""

    arg_types = {"expressions": True}


class PatternQuantified(exp.Expression):
    """`this` from `minimum` to `maximum` times (None: any number); reluctant unless `greedy`."""

    arg_types = {"this": True, "minimum": True, "maximum": False, "greedy": True}


class PatternExclusion(exp.Expression):
    """{- this -}."""

    arg_types = {"this": True}


class PatternPermutation(exp.Expression):
    """PERMUTE(A, B)."""

    arg_types = {"expressions": True}


def hints_of(tree: Any) -> tuple[Hint, ...]:
    """Return the hints that were written behind a relation or behind SELECT."""
    hints: tuple[Hint, ...] = tree.meta.get("hints", ())
    return hints


def concatenate_with_plus(tree: Any) -> None:
    """Give + the meaning that it has in the Table API: behind a text it appends, while SQL has || for that."""
    for sum_ in tree.find_all(exp.Add):
        sum_.meta["joins texts"] = True


def joins_texts(tree: Any) -> bool:
    """Whether + may append to a text here."""
    return bool(tree.meta.get("joins texts"))


def function_path(call: Any) -> tuple[str, ...]:
    """Return the parts of the name of a function that is called."""
    path: tuple[str, ...] | None = call.meta.get("path")
    return (str(call.this),) if path is None else path


def name_parts(tree: Any) -> tuple[str, ...]:
    """Return the parts of a name with dots: of a Column (also with field accesses behind it), a Table or an Identifier."""
    if isinstance(tree, exp.Dot):
        return (*name_parts(tree.this), *name_parts(tree.expression))
    if isinstance(tree, exp.Identifier):
        return (str(tree.this),)
    if isinstance(tree, exp.Star):
        return ("*",)
    parts: Sequence[Any] = [tree.args.get(part) for part in ("catalog", "db", "table", "this")]
    return tuple(name for part in parts if part is not None for name in name_parts(part))


def position_of(tree: object) -> Position | None:
    """Return the line and the column where a node is written, from 1, if that is known."""
    if tree is None or not isinstance(tree, exp.Expression):
        return None
    for node in tree.walk():
        if "line" in node.meta:
            return node.meta["line"], node.meta["col"]
    return None


def length_of(tree: object) -> int:
    """Return how many characters of the statement a node takes (1 if that is not known)."""
    if isinstance(tree, exp.Expression) and "start" in tree.meta:
        length: int = tree.meta["end"] - tree.meta["start"]
        return max(length, 1)
    return 1
