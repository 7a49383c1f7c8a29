"""From trees of expressions to typed expressions over columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from sqlglot import exp

from penstock.errors import PenstockError
from penstock.sql.errors import (
    SqlError,
    UnsupportedQueryError,
    ValidationError,
    did_you_mean,
    nearest,
)
from penstock.sql.expr import functions
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
    UserCall,
)
from penstock.sql.expr.typing import STRING, is_ordered, is_text
from penstock.sql.logical.conditions import field_access
from penstock.sql.logical.function_names import BINARY, WINDOW_PROPERTIES
from penstock.sql.logical.literals import interval_type, literal_of, text_literal
from penstock.sql.logical.scope import AmbiguousNameError, NameScope, ResolvedName
from penstock.sql.parse import trees
from penstock.sql.types import (
    AtomicType,
    BigIntType,
    BinaryType,
    BitmapType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntType,
    NullType,
    RowType,
)

if TYPE_CHECKING:
    from penstock.sql.logical.context import LogicalPlanContext


class Expressions:
    """Converts expressions in one scope. Blocks of queries derive from it where expressions mean more: aggregates, OVER, subqueries."""

    def __init__(self, context: LogicalPlanContext, scope: NameScope) -> None:
        self.context = context
        self.scope = scope

    # errors

    def fail(
        self,
        tree: object,
        message: str,
        *,
        hint: str | None = None,
        detail: str | None = None,
        kind: type[SqlError] = ValidationError,
    ) -> NoReturn:
        """Reject the query, because of this part of it."""
        raise self.context.error(tree, message, hint=hint, detail=detail, kind=kind)

    def unsupported(self, tree: object, message: str, *, hint: str | None = None) -> NoReturn:
        """Reject the query: it may be right, but it cannot be run."""
        self.fail(tree, message, hint=hint, kind=UnsupportedQueryError)

    # entry points

    def convert(self, tree: Any) -> Rex:
        """Convert an expression."""
        special = self.intercept(tree)
        if special is not None:
            return special
        name = BINARY.get(type(tree))
        if name is not None:
            return self.binary(name, tree)
        visit = getattr(self, f"visit_{type(tree).__name__.lower()}", None)
        if visit is None:
            self.unsupported(tree, f"{_words(tree)} is not supported in an expression")
        found: Rex = visit(tree)
        return found

    def condition(self, tree: exp.Expr, where: str) -> Rex:
        """Return a condition; anything that is not BOOLEAN is refused."""
        rex = self.convert(tree)
        if isinstance(rex.type, NullType):
            return Literal(BooleanType(), None)
        if not isinstance(rex.type, BooleanType):
            self.fail(tree, f"{where} must be BOOLEAN, got {rex.type}")
        return rex

    def check_order(self, tree: exp.Expr, kind: DataType) -> None:
        """Reject to order rows by values that have no order."""
        if not is_ordered(kind):
            self.fail(tree, f"cannot order by values of type {kind.nullable()}")

    def intercept(self, tree: exp.Expr) -> Rex | None:
        """Convert trees that have a special meaning in this scope; None for all others."""
        return None

    def call(
        self,
        tree: exp.Expr,
        name: str,
        operands: Sequence[Rex],
        *,
        symbols: Mapping[str, Any] | None = None,
        to: DataType | None = None,
    ) -> Rex:
        """Return the call of a built-in function, typed; errors get the position of `tree`."""
        try:
            return functions.resolve(name, operands, symbols=symbols, type=to)
        except PenstockError as error:
            raise self.context.wrapped(tree, error) from None

    # names

    def visit_column(self, tree: exp.Expr) -> Rex:
        """A column, or a field of one."""
        parts = trees.name_parts(tree)
        if parts[-1] == "*":
            self.fail(tree, "'*' is not an expression", hint="name the columns")
        rex = self.find(tree, parts)
        if rex is None and [part.upper() for part in parts] == ["PI"]:
            return self.call(tree, "PI", [])
        if rex is None:
            self.unknown_column(tree, parts)
        return rex

    def find(self, tree: exp.Expr, parts: Sequence[str]) -> Rex | None:
        """Return the column of a name, here or in a query around; None if there is none."""
        try:
            found = self.scope.find(parts)
        except AmbiguousNameError as ambiguous:
            self.fail(
                tree,
                f"column '{ambiguous}' is ambiguous",
                hint=f"qualify it, as in table.{parts[-1]}",
            )
        if found is None:
            return self.context.find_outer(tree, parts)
        return self.fields_of(tree, self.reference(found), found.rest)

    def reference(self, found: ResolvedName) -> Rex:
        """Return the expression that reads a column."""
        return InputRef(found.field.type, found.index)

    def unknown_column(self, tree: exp.Expr, parts: Sequence[str]) -> NoReturn:
        """Reject a name."""
        known = self.scope.names()
        if len(parts) > 1 and (relation := self.scope.find_relation(parts[:-1])) is not None:
            own = [each.name for each in relation.fields]
            self.fail(
                tree,
                f"column '{parts[-1]}' not found in table '{'.'.join(parts[:-1])}'",
                hint=did_you_mean(parts[-1], own) or _columns(own),
            )
        self.fail(
            tree,
            f"column '{'.'.join(parts)}' not found in any table",
            hint=did_you_mean(".".join(parts), known)
            or _columns([f.name for _, f in self.scope.columns()]),
        )

    def fields_of(self, tree: exp.Expr, rex: Rex, names: Sequence[str]) -> Rex:
        """Return a field inside of rows."""
        for name in names:
            kind = rex.type
            if not isinstance(kind, RowType):
                self.fail(tree, f"cannot access field '{name}': its left side is {kind}, not a ROW")
            if name not in kind.names:
                self.fail(
                    tree,
                    f"field '{name}' not found in {kind}",
                    hint=did_you_mean(name, kind.names),
                )
            rex = field_access(rex, kind.names.index(name))
        return rex

    def visit_dot(self, tree: exp.Expr) -> Rex:
        """A field of a ROW expression."""
        return self.fields_of(tree, self.convert(tree.this), trees.name_parts(tree.expression))

    # literals

    def visit_literal(self, tree: exp.Expr) -> Rex:
        """A number or a text."""
        return text_literal(str(tree.this)) if tree.is_string else self.number(tree, str(tree.this))

    def number(self, tree: exp.Expr, text: str) -> Rex:
        """Return a number as Flink types it: INT, BIGINT, DECIMAL; DOUBLE with an exponent."""
        if "e" in text.lower():
            return Literal(DoubleType(nullable=False), float(text))
        value = Decimal(text)
        if "." not in text:
            whole = int(text)
            if -(2**31) <= whole < 2**31:
                return Literal(IntType(nullable=False), whole)
            if -(2**63) <= whole < 2**63:
                return Literal(BigIntType(nullable=False), whole)
        _, digits, exponent = value.as_tuple()
        scale = max(-int(exponent), 0)
        precision = max(len(digits), scale + 1)  # a zero before the point counts
        if precision > 38:
            self.fail(tree, f"the number {text} has more than 38 digits")
        return Literal(DecimalType(precision, scale, nullable=False), value)

    def visit_null(self, tree: exp.Expr) -> Rex:
        """NULL."""
        del tree
        return Literal(NullType(), None)

    def visit_boolean(self, tree: exp.Expr) -> Rex:
        """TRUE or FALSE."""
        return Literal(BooleanType(nullable=False), bool(tree.this))

    def visit_typedliteral(self, tree: exp.Expr) -> Rex:
        """DATE '...' and the like."""
        return self.literal_of(tree)

    def visit_interval(self, tree: exp.Expr) -> Rex:
        """INTERVAL '...' unit."""
        return self.literal_of(tree)

    def literal_of(self, tree: object) -> Rex:
        """Return a date, a time or an interval."""
        try:
            return literal_of(tree, self.context.settings.zone)
        except PenstockError as error:
            raise self.context.wrapped(tree, error) from None

    def visit_hexliteral(self, tree: exp.Expr) -> Rex:
        """X'1F'."""
        value = bytes.fromhex(str(tree.this))
        return Literal(BinaryType(max(len(value), 1), nullable=False), value)

    # operators

    def binary(self, name: str, tree: exp.Expr) -> Rex:
        """An operator with two operands; ANY and ALL of a subquery are for those who know subqueries."""
        left, right = self.convert(tree.this), self.convert(tree.expression)
        if name == "+" and is_text(left.type) and trees.joins_texts(tree) and _has_text(right.type):
            appended = right if is_text(right.type) else self.call(tree, "CAST", [right], to=STRING)
            return self.call(tree, "||", [left, appended])
        return self.call(tree, name, [left, right])

    def visit_difference(self, tree: exp.Expr) -> Rex:
        """(a - b) DAY TO SECOND."""
        operands = [self.convert(tree.this), self.convert(tree.expression)]
        return self.call(tree, "-", operands, symbols={"type": interval_type(tree.args["unit"])})

    def visit_paren(self, tree: exp.Expr) -> Rex:
        """(expression)."""
        return self.convert(tree.this)

    def visit_tuple(self, tree: exp.Expr) -> Rex:
        """(a, b): a row."""
        return self.call(tree, "ROW", [self.convert(each) for each in tree.expressions])

    def visit_and(self, tree: exp.Expr) -> Rex:
        """AND: a flat call, however many there are."""
        return self.connected(tree, "AND", exp.And)

    def visit_or(self, tree: exp.Expr) -> Rex:
        """OR."""
        return self.connected(tree, "OR", exp.Or)

    def connected(self, tree: exp.Expr, name: str, kind: type[Any]) -> Rex:
        """Return conditions connected by AND or OR, as one call."""
        parts: list[Any] = []
        waiting = [tree]
        while waiting:
            each = waiting.pop()
            if isinstance(each, kind):
                waiting += [each.expression, each.this]
            else:
                parts.append(each)
        return self.call(
            tree, name, [self.condition(each, f"an operand of {name}") for each in parts]
        )

    def visit_not(self, tree: exp.Expr) -> Rex:
        """NOT, also as in NOT LIKE; IS NOT NULL and its kin have names of their own."""
        inner = tree.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Is) and inner is tree.this:
            return self.is_test(inner, negated=True)
        return self.call(tree, "NOT", [self.condition(tree.this, "the operand of NOT")])

    def visit_is(self, tree: exp.Expr) -> Rex:
        """IS NULL, IS TRUE, ..."""
        return self.is_test(tree, negated=False)

    def is_test(self, tree: exp.Expr, *, negated: bool) -> Rex:
        """Return IS [NOT] NULL, TRUE, FALSE."""
        what = tree.expression
        if isinstance(what, exp.Null):
            word = "NULL"
        elif isinstance(what, exp.Boolean):
            word = "TRUE" if what.this else "FALSE"
        else:
            self.fail(tree, f"IS {what} is not supported", hint="use IS NOT DISTINCT FROM")
        name = f"IS NOT {word}" if negated else f"IS {word}"
        return self.call(tree, name, [self.convert(tree.this)])

    def visit_neg(self, tree: exp.Expr) -> Rex:
        """-a; of a literal, a literal."""
        inner = tree.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return self.number(tree, f"-{inner.this}")
        return self.call(tree, "NEGATE", [self.convert(inner)])

    def visit_escape(self, tree: exp.Expr) -> Rex:
        """LIKE ... ESCAPE."""
        like = tree.this
        operands = [self.convert(each) for each in (like.this, like.expression, tree.expression)]
        return self.call(tree, BINARY[type(like)], operands)

    def visit_between(self, tree: exp.Expr) -> Rex:
        """BETWEEN: two comparisons."""
        value, low, high = (self.convert(tree.args[each]) for each in ("this", "low", "high"))
        if tree.args.get("symmetric"):
            ways = [
                self.call(
                    tree,
                    "AND",
                    [self.call(tree, ">=", [value, a]), self.call(tree, "<=", [value, b])],
                )
                for a, b in ((low, high), (high, low))
            ]
            return self.call(tree, "OR", ways)
        return self.call(
            tree, "AND", [self.call(tree, ">=", [value, low]), self.call(tree, "<=", [value, high])]
        )

    def visit_in(self, tree: exp.Expr) -> Rex:
        """IN (a, b, c)."""
        if tree.args.get("query") is not None:
            return self.visit_subquery(tree)
        operands = [self.convert(tree.this), *(self.convert(each) for each in tree.expressions)]
        return self.call(tree, "IN", operands)

    def visit_case(self, tree: exp.Expr) -> Rex:
        """CASE with or without a value to compare."""
        operands: list[Rex] = []
        value = None if tree.this is None else self.convert(tree.this)
        for branch in tree.args["ifs"]:
            if value is None:
                condition = self.condition(branch.this, "the condition of WHEN")
            else:
                condition = self.call(branch, "=", [value, self.convert(branch.this)])
            operands += [condition, self.convert(branch.args["true"])]
        default = tree.args.get("default")
        operands.append(Literal(NullType(), None) if default is None else self.convert(default))
        return self.call(tree, "CASE", operands)

    def visit_cast(self, tree: exp.Expr) -> Rex:
        """CAST."""
        return self.cast(tree, "CAST")

    def visit_trycast(self, tree: exp.Expr) -> Rex:
        """TRY_CAST."""
        return self.cast(tree, "TRY_CAST")

    def cast(self, tree: exp.Expr, name: str) -> Rex:
        """Return a cast to the type that is written."""
        value = self.convert(tree.this)
        rex = self.call(tree, name, [value], to=tree.args["to"].data_type)
        if rex is value and isinstance(rex, InputRef):
            return Call(rex.type, name, (rex,))  # a time attribute is an ordinary timestamp then
        return rex

    def visit_bracket(self, tree: exp.Expr) -> Rex:
        """a[i]: an element of an array, a value of a map, a field of a row."""
        value = self.convert(tree.this)
        for each in tree.expressions:
            value = self.call(tree, "ITEM", [value, self.convert(each)])
        return value

    def visit_extract(self, tree: exp.Expr) -> Rex:
        """EXTRACT(unit FROM x)."""
        return self.call(tree, "EXTRACT", [self.convert(tree.this), self.convert(tree.expression)])

    def visit_overlaps(self, tree: exp.Expr) -> Rex:
        """(start, end or interval) OVERLAPS (start, end or interval)."""
        pairs = [side.expressions for side in (tree.this, tree.expression)]
        return self.call(tree, "OVERLAPS", [self.convert(each) for pair in pairs for each in pair])

    def visit_var(self, tree: exp.Expr) -> Rex:
        """A keyword."""
        return Symbol(NullType(), str(tree.this).upper())

    def visit_trim(self, tree: exp.Expr) -> Rex:
        """TRIM(BOTH 'x' FROM y)."""
        what = tree.args.get("expression")
        characters = text_literal(" ") if what is None else self.convert(what)
        place = Symbol(NullType(), str(tree.args["position"]).upper())
        return self.call(tree, "TRIM", [place, characters, self.convert(tree.this)])

    def visit_isjson(self, tree: exp.Expr) -> Rex:
        """IS JSON."""
        return self.call(
            tree, "IS JSON", [self.convert(tree.this)], symbols={"kind": tree.args["kind"]}
        )

    def visit_jsonexists(self, tree: exp.Expr) -> Rex:
        """JSON_EXISTS."""
        operands = [self.convert(tree.this), self.convert(tree.args["path"])]
        symbols = _given({"on_error": tree.args.get("on_error")})
        return self.call(tree, "JSON_EXISTS", operands, symbols=symbols)

    def visit_jsonvalue(self, tree: exp.Expr) -> Rex:
        """JSON_VALUE."""
        return self.json_access(tree, "JSON_VALUE", {})

    def visit_jsonquery(self, tree: exp.Expr) -> Rex:
        """JSON_QUERY."""
        return self.json_access(tree, "JSON_QUERY", {"wrapper": tree.args.get("wrapper")})

    def json_access(self, tree: exp.Expr, name: str, symbols: dict[str, Any]) -> Rex:
        """Return JSON_VALUE or JSON_QUERY with its ON EMPTY and ON ERROR behaviour."""
        returning = tree.args.get("returning")
        symbols["returning"] = None if returning is None else returning.data_type
        for each in ("on_empty", "on_error"):
            what = tree.args.get(each)
            symbols[each] = self.convert(what) if isinstance(what, exp.Expression) else what
        operands = [self.convert(tree.this), self.convert(tree.args["path"])]
        return self.call(tree, name, operands, symbols=_given(symbols))

    def visit_jsonobject(self, tree: exp.Expr) -> Rex:
        """JSON_OBJECT."""
        operands = [self.convert(part) for pair in tree.expressions for part in pair.expressions]
        return self.call(
            tree, "JSON_OBJECT", operands, symbols=_given({"on_null": tree.args.get("on_null")})
        )

    def visit_jsonarray(self, tree: exp.Expr) -> Rex:
        """JSON_ARRAY."""
        operands = [self.convert(each) for each in tree.expressions]
        return self.call(
            tree, "JSON_ARRAY", operands, symbols=_given({"on_null": tree.args.get("on_null")})
        )

    # calls

    def visit_anonymous(self, tree: exp.Expr) -> Rex:
        """A call of a function, built-in or the user's."""
        path = trees.function_path(tree)
        user = self.context.catalog.find_function(path)
        if user is None and len(path) > 1:
            self.fail(tree, f"function '{'.'.join(path)}' not found")
        if user is not None:
            return self.user_call(tree, user)
        name = path[-1].upper()
        if functions.is_aggregate(name):
            self.misplaced(tree, name)
        if name in WINDOW_PROPERTIES:
            self.fail(
                tree,
                f"{name} can only be used with the same window in GROUP BY",
                hint=f"add GROUP BY {WINDOW_PROPERTIES[name][0]}(...) with the same operands",
            )
        if name in {"CURRENT_CATALOG", "CURRENT_DATABASE"} and not tree.expressions:
            catalog, database = self.context.catalog.here
            return text_literal(catalog if name == "CURRENT_CATALOG" else database)
        if name in {"TUMBLE", "HOP", "CUMULATE", "SESSION"}:
            self.fail(
                tree,
                f"{name} is a window, not a value",
                hint=f"write FROM TABLE({name}(TABLE t, DESCRIPTOR(ts), ...)), or {name}(ts, ...) in GROUP BY",
            )
        if not functions.is_function(name):
            near = nearest(path[-1], self.context.catalog.function_names(), 0.7)
            if near:
                self.fail(tree, f"unknown function {path[-1]}", hint=f"did you mean {near}?")
        operands = [self.operand(each) for each in tree.expressions]
        return self.call(tree, name, operands)

    def misplaced(self, tree: object, name: str) -> NoReturn:
        """Reject an aggregate function where there is nothing to aggregate."""
        self.fail(
            tree,
            f"aggregate function {name} is not allowed here",
            hint="put conditions on aggregates into HAVING",
        )

    def operand(self, tree: exp.Expr) -> Rex:
        """Return an operand of a function."""
        if isinstance(tree, exp.Distinct):
            self.fail(tree, "DISTINCT is only allowed in aggregate functions")
        if isinstance(tree, exp.Star):
            self.fail(tree, "'*' is only allowed in COUNT(*)")
        return self.convert(tree)

    def user_call(self, tree: exp.Expr, user: Any) -> Rex:
        """Return a call of a user's scalar function."""
        if user.kind != "SCALAR":
            self.fail(
                tree,
                f"'{user.name}' is a {user.kind.lower().replace('_', ' ')} function and cannot be used here",
                hint="call a table function as LATERAL TABLE(f(x))"
                if user.kind == "TABLE"
                else None,
            )
        operands = self.user_operands(tree, user)
        return UserCall(
            user.result_types[0],
            user.name,
            user.function,
            operands,
            user.pandas,
            user.deterministic,
        )

    def user_operands(self, tree: exp.Expr, user: Any) -> tuple[Rex, ...]:
        """Return the operands of a user function, cast to its parameter types."""
        operands = [self.operand(each) for each in tree.expressions]
        wanted = user.input_types
        if wanted is None:
            return tuple(operands)
        if len(wanted) != len(operands):
            self.fail(
                tree,
                f"'{user.name}' expects {len(wanted)} operands, got {len(operands)}",
                detail=f"its signature is ({', '.join(map(str, wanted))})",
            )
        return tuple(
            self.context.implicit_cast(tree, each, kind, f"operand {number} of '{user.name}'")
            for number, (each, kind) in enumerate(zip(operands, wanted, strict=True), 1)
        )

    # only supported in blocks of queries

    def visit_subquery(self, tree: exp.Expr) -> Rex:
        """A subquery outside of a query."""
        self.unsupported(tree, "a subquery is not allowed here")

    visit_exists = visit_subquery
    visit_any = visit_subquery
    visit_all = visit_subquery

    def visit_window(self, tree: exp.Expr) -> Rex:
        """OVER, where it is not allowed."""
        self.fail(
            tree,
            "OVER is only allowed in SELECT, QUALIFY and ORDER BY",
            hint="compute it in a subquery and filter in the outer query",
        )

    def visit_filter(self, tree: exp.Expr) -> Rex:
        """FILTER (WHERE ...) around an aggregate."""
        self.misplaced(tree, _words(tree.this))

    visit_withingroup = visit_filter
    visit_ignorenulls = visit_filter
    visit_respectnulls = visit_filter


def _given(symbols: dict[str, Any]) -> dict[str, Any]:
    """Return the options given in the query; functions have their own defaults."""
    return {name: value for name, value in symbols.items() if value is not None}


def _columns(names: Sequence[str]) -> str | None:
    return f"available columns: {', '.join(names)}" if names else None


def _has_text(kind: DataType) -> bool:
    """Whether values of a type can be appended to a text: those without parts."""
    return isinstance(kind, AtomicType) and not isinstance(kind, BitmapType)


def _words(tree: exp.Expr) -> str:
    """Describe a tree for messages."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).upper()
    name = type(tree).__name__
    return "".join(f" {c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()
