"""Mutants of a module: small changes of its code that a test should notice.

    for mutant in mutants(source, "module.py"):
        print(mutant.line, mutant.before, "->", mutant.after)

A mutant changes one place: a condition is negated, dropped or shifted, an operand or a statement left out, two sides swapped, a
number or an index changed. Errors and what only people read (messages, `__repr__`, annotations) stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: Functions that only make texts for people.
READ_BY_PEOPLE = frozenset(
    {"__repr__", "__str__", "describe", "description", "digest_text", "explain", "label"}
)
SHIFTED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
TURNED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
#: Names that stand for the other side of something.
OTHERS = {
    "left": "right",
    "right": "left",
    "first": "last",
    "last": "first",
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "start": "end",
    "end": "start",
    "lower": "upper",
    "upper": "lower",
    "before": "after",
    "after": "before",
}
_NOT_LISTED = (ast.Load, ast.Store, ast.Del)


@dataclass(frozen=True)
class Mutant:
    """One change of a module; `names` are the functions and classes around it."""

    path: str
    line: int
    last_line: int
    names: tuple[str, ...]
    kind: str
    before: str
    after: str
    tree: Callable[[], ast.Module]

    def __str__(self) -> str:
        where = ".".join(self.names) or "<module>"
        return f"{self.path}:{self.line} ({where}) {self.kind}\n  - {self.before}\n  + {self.after}"


@dataclass(frozen=True)
class _Change:
    """A change of a node: `make` returns what is there instead, of a copy of it."""

    kind: str
    make: Callable[[ast.AST], ast.AST]


def mutants(source: str, path: str) -> Iterator[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
    tree = ast.parse(source, path)
    for place, (node, names) in enumerate(_places(tree, ())):
        for change in _changes(node):
            made = change.make(copy.deepcopy(node))
            before, after = _shown(node), _shown(made)
            if before != after:
                first, last = node.lineno, node.end_lineno or node.lineno
                changed = _Replaced(source, path, place, made)
                yield Mutant(path, first, last, names, change.kind, before, after, changed)


@dataclass(frozen=True)
class _Replaced:
    """Makes the tree of a module in which a node is another one."""

    source: str
    path: str
    place: int
    made: ast.AST

    def __call__(self) -> ast.Module:
        tree = ast.parse(self.source, self.path)
        target = next(node for at, (node, _) in enumerate(_places(tree, ())) if at == self.place)
        ast.copy_location(self.made, target)
        changed = _Replace(target, self.made).visit(tree)
        return ast.fix_missing_locations(changed)


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, made: ast.AST) -> None:
        self._target, self._made = target, made

    def visit(self, node: ast.AST) -> ast.AST:
        return self._made if node is self._target else self.generic_visit(node)


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    lines = text.splitlines()
    return text if len(lines) <= 3 else "\n    ".join([*lines[:2], "..."])


def _places(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Return the nodes that may be changed, with the names around them."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            continue
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, ast.AST) or isinstance(each, _NOT_LISTED):
                continue
            if _stays(each):
                continue
            inside = names
            if isinstance(each, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                inside = (*names, each.name)
            elif hasattr(each, "lineno"):
                yield each, names
            yield from _places(each, inside)


def _stays(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.FunctionDef(name=name):
            return name in READ_BY_PEOPLE
        case ast.Call(func=ast.Name(id="cast" | "TypeVar" | "NewType")):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name.endswith("Error")
    return False


def _changes(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare():
            yield from _of_compare(node)
        case ast.BoolOp():
            yield from _of_bool(node)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()):
            yield _Change("operator dropped", lambda copied: copied.operand)  # type: ignore[attr-defined]
        case ast.If():
            yield from _of_if(node)
        case ast.IfExp():
            yield _Change("always the first", lambda copied: copied.body)  # type: ignore[attr-defined]
            yield _Change("always the other", lambda copied: copied.orelse)  # type: ignore[attr-defined]
        case ast.Constant():
            yield from _of_constant(node)
        case ast.BinOp():
            yield from _of_operation(node)
        case ast.List() | ast.Set() | ast.Tuple():
            yield from _of_elements(node)
        case ast.Call():
            yield from _of_call(node)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            yield from _of_name(node, name)
        case ast.Return():
            yield from _of_return(node)
        case ast.Expr() | ast.AugAssign() | ast.Delete():
            yield _Change("statement deleted", _nothing)
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield _Change("statement deleted", _nothing)
        case ast.Continue() | ast.Break():
            yield _Change("statement deleted", _nothing)
        case ast.Match():
            yield from _of_match(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _of_comprehension(node)
        case ast.Slice(lower=lower, upper=upper):
            for name, bound in (("lower", lower), ("upper", upper)):
                if bound is not None:
                    yield _Change("bound dropped", _without_field(name))


def _nothing(_: ast.AST) -> ast.AST:
    return ast.Pass()


def _set(**fields: object) -> Callable[[ast.AST], ast.AST]:
    def make(copied: ast.AST) -> ast.AST:
        for name, value in fields.items():
            setattr(copied, name, value)
        return copied

    return make


def _without_field(name: str) -> Callable[[ast.AST], ast.AST]:
    return _set(**{name: None})


def _without(field: str, at: int) -> Callable[[ast.AST], ast.AST]:
    def make(copied: ast.AST) -> ast.AST:
        del getattr(copied, field)[at]
        return copied

    return make


def _of_compare(node: ast.Compare) -> Iterator[_Change]:
    if len(node.ops) == 1:
        other = SHIFTED[type(node.ops[0])]
        kind = "comparison shifted" if other in {ast.Lt, ast.LtE, ast.Gt, ast.GtE} else "negated"
        yield _Change(kind, _set(ops=[other()]))
        if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            swapped = _set(left=node.comparators[0], comparators=[node.left])
            yield _Change("sides swapped", swapped)


def _of_bool(node: ast.BoolOp) -> Iterator[_Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield _Change("and/or", _set(op=other))
    for at in range(len(node.values)):
        rest = [each for n, each in enumerate(node.values) if n != at]
        yield _Change("condition dropped", _either(rest))


def _either(rest: list[ast.expr]) -> Callable[[ast.AST], ast.AST]:
    return lambda copied: rest[0] if len(rest) == 1 else _set(values=rest)(copied)


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Raise) for each in body)


def _of_if(node: ast.If) -> Iterator[_Change]:
    if _raises(node.body) or _raises(node.orelse):
        return
    negated = ast.UnaryOp(ast.Not(), node.test)
    yield _Change("if negated", _set(test=negated))
    yield _Change("if always", _set(test=ast.Constant(value=True)))
    yield _Change("if never", _set(test=ast.Constant(value=False)))


def _of_constant(node: ast.Constant) -> Iterator[_Change]:
    if isinstance(node.value, bool):
        yield _Change("constant", _set(value=not node.value))
    elif isinstance(node.value, int):
        yield _Change("constant", _set(value=node.value + 1))
        if node.value > 0:
            yield _Change("constant", _set(value=node.value - 1))


def _of_operation(node: ast.BinOp) -> Iterator[_Change]:
    if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
        return
    other = TURNED.get(type(node.op))
    if other is not None:
        yield _Change("other operator", _set(op=other()))
    yield _Change("left only", lambda copied: copied.left)  # type: ignore[attr-defined]
    yield _Change("right only", lambda copied: copied.right)  # type: ignore[attr-defined]


def _of_elements(node: ast.List | ast.Set | ast.Tuple) -> Iterator[_Change]:
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or len(node.elts) < 2:
        return
    if isinstance(node, ast.Tuple):
        if len(node.elts) == 2 and not any(isinstance(e, ast.Slice) for e in node.elts):
            yield _Change("sides swapped", _set(elts=node.elts[::-1]))
        return
    for at in range(min(len(node.elts), 6)):
        yield _Change("element dropped", _without("elts", at))


def _of_call(node: ast.Call) -> Iterator[_Change]:
    plain = ast.Name | ast.Attribute | ast.Subscript | ast.Call
    if len(node.args) >= 2 and isinstance(node.args[0], plain) and isinstance(node.args[1], plain):
        args = [node.args[1], node.args[0], *node.args[2:]]
        yield _Change("arguments swapped", _set(args=args))
    match node.func:
        case ast.Name(id="sorted" | "reversed" | "frozenset" | "set" | "abs" | "bool" | "list"):
            if len(node.args) == 1:
                yield _Change("call dropped", lambda copied: copied.args[0])  # type: ignore[attr-defined]
    for at, keyword in enumerate(node.keywords):
        if keyword.arg is not None and len(node.keywords) <= 4:
            yield _Change("argument dropped", _without("keywords", at))


def _of_name(node: ast.AST, name: str) -> Iterator[_Change]:
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return
    field = "attr" if isinstance(node, ast.Attribute) else "id"
    words = name.split("_")
    for at, word in enumerate(words):
        if word in OTHERS:
            other = "_".join([*words[:at], OTHERS[word], *words[at + 1 :]])
            yield _Change("other side", _set(**{field: other}))


def _of_return(node: ast.Return) -> Iterator[_Change]:
    if node.value is None:
        yield _Change("statement deleted", _nothing)
    elif isinstance(node.value, ast.Compare | ast.BoolOp):
        yield _Change("returns True", _set(value=ast.Constant(value=True)))
        yield _Change("returns False", _set(value=ast.Constant(value=False)))
    elif not isinstance(node.value, ast.Constant):
        yield _Change("returns None", _set(value=ast.Constant(value=None)))


def _of_match(node: ast.Match) -> Iterator[_Change]:
    for at, case in enumerate(node.cases):
        if not _raises(case.body) and len(node.cases) > 1:
            yield _Change("case dropped", _without("cases", at))
        if case.guard is not None:
            yield _Change("guard dropped", _without_guard(at))


def _without_guard(at: int) -> Callable[[ast.AST], ast.AST]:
    def make(copied: ast.AST) -> ast.AST:
        copied.cases[at].guard = None  # type: ignore[attr-defined]
        return copied

    return make


def _of_comprehension(node: ast.AST) -> Iterator[_Change]:
    for at, generator in enumerate(node.generators):  # type: ignore[attr-defined]
        for number in range(len(generator.ifs)):
            yield _Change("condition dropped", _without_if(at, number))


def _without_if(at: int, number: int) -> Callable[[ast.AST], ast.AST]:
    def make(copied: ast.AST) -> ast.AST:
        del copied.generators[at].ifs[number]  # type: ignore[attr-defined]
        return copied

    return make
