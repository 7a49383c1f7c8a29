"""Flink's SQL as a dialect of sqlglot: trees back to text, and sqlglot's own entry points.

>>> import sqlglot
>>> from penstock.sql.parse.dialect import Flink
>>> sqlglot.parse_one("select `a b` from t", read=Flink).sql(dialect=Flink)
'SELECT `a b` FROM t'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot import generator as glot_generator
from sqlglot import parser as glot_parser
from sqlglot.dialects.dialect import Dialect

from penstock.sql.parse import trees
from penstock.sql.parse.grammar import Grammar
from penstock.sql.parse.names import QUERY_WORDS
from penstock.sql.parse.stream import RESERVED
from penstock.sql.parse.tokens import FlinkTokenizer, SqlText


def to_sql(tree: Any) -> str:
    """Return a tree as text that reads as the same tree."""
    return str(tree.sql(dialect=Flink))


class FlinkParser(glot_parser.Parser):
    """sqlglot's entry to the parser: queries and expressions, one after the other."""

    def parse(self, raw_tokens: list[Any], sql: str) -> list[exp.Expr | None]:
        """Return the trees of queries or expressions with semicolons between."""
        grammar = Grammar(SqlText(sql))
        tokens = grammar.tokens
        found: list[exp.Expr | None] = []
        while not tokens.at_end:
            if tokens.accept(";"):
                continue
            is_query = tokens.current.upper in QUERY_WORDS
            found.append(grammar.queries.query() if is_query else grammar.expressions.expression())
            if not tokens.accept(";"):
                tokens.expect_end()
        return found or [None]


class FlinkGenerator(glot_generator.Generator):
    """Writes trees as Flink's SQL."""

    SUPPORTS_BETWEEN_FLAGS = True
    RESERVED_KEYWORDS: ClassVar[set[str]] = {word.lower() for word in RESERVED}

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """Write a call, with the qualified name and the brackets that it was written with."""
        path = trees.function_path(expression)
        operands = self.expressions(expression, flat=True)
        name = path[0].upper()
        if len(path) == 1 and name in ("ARRAY", "MAP"):
            return f"{name}[{operands}]"
        if len(path) == 1 and name in _NO_PARENTHESES and not expression.expressions:
            return name
        if len(path) == 1 and name in _WITH_WORDS and len(expression.expressions) == 2:
            first, second = (self.sql(operand) for operand in expression.expressions)
            if isinstance(expression.expressions[1], exp.Var) or name == "POSITION":
                return f"{path[0]}({first} {_WITH_WORDS[name]} {second})"
        return f"{'.'.join(path)}({operands})"

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """Write a table with FOR SYSTEM_TIME, hints and alias."""
        name = ".".join(
            self.sql(expression.args[part])
            for part in ("catalog", "db", "this")
            if expression.args.get(part)
        )
        version = expression.args.get("version")
        if version is not None:
            name += f" FOR SYSTEM_TIME AS OF {self.sql(version, 'expression')}"
        joins = "".join(self.sql(join) for join in expression.args.get("joins") or ())
        return self._with_alias(name, expression) + joins

    def _with_alias(self, text: str, expression: exp.Expression) -> str:
        hints = trees.hints_of(expression)
        text += f" {_hints(hints)}" if hints else ""
        alias = self.sql(expression, "alias")
        return f"{text} AS {alias}" if alias else text

    def select_sql(self, expression: exp.Select) -> str:
        """Write a SELECT with its hints."""
        text = super().select_sql(expression)
        hints = trees.hints_of(expression)
        return text.replace("SELECT", f"SELECT {_hints(hints)}", 1) if hints else text

    def not_sql(self, expression: exp.Not) -> str:
        """Write NOT, inside of IS."""
        inner = expression.this
        if isinstance(inner, exp.Is):
            return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
        return f"NOT {self.sql(expression, 'this')}"

    def all_sql(self, expression: exp.All) -> str:
        """Write ALL with its query."""
        return f"ALL {self.sql(expression, 'this')}"

    def interval_sql(self, expression: exp.Interval) -> str:
        """Write an interval with its text in quotes."""
        return f"INTERVAL {self.sql(expression, 'this')} {self.sql(expression, 'unit')}"

    def trim_sql(self, expression: exp.Trim) -> str:
        """Write TRIM with its place."""
        characters = self.sql(expression, "expression")
        place = f"{expression.args['position']} {characters}".rstrip()
        return f"TRIM({place} FROM {self.sql(expression, 'this')})"

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """Write CAST or TRY_CAST with a type of ours."""
        return f"{safe_prefix or ''}CAST({self.sql(expression, 'this')} AS {self.sql(expression, 'to')})"

    def trycast_sql(self, expression: exp.TryCast) -> str:
        """Write TRY_CAST."""
        return self.cast_sql(expression, safe_prefix="TRY_")

    def values_sql(self, expression: exp.Values, values_as_table: bool = True) -> str:
        """Write VALUES."""
        return f"VALUES {self.expressions(expression, flat=True)}"

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """Write UNNEST."""
        ordinality = " WITH ORDINALITY" if expression.args.get("offset") else ""
        text = f"UNNEST({self.expressions(expression, flat=True)}){ordinality}"
        return self._with_alias(text, expression)

    def lateral_sql(self, expression: exp.Lateral) -> str:
        """Write LATERAL TABLE(f(x)) or LATERAL (query)."""
        inner = self.sql(expression, "this")
        if not isinstance(expression.this, exp.Subquery):
            inner = f"TABLE({inner})"
        return self._with_alias(f"LATERAL {inner}", expression)

    def ordered_sql(self, expression: exp.Ordered) -> str:
        """Write an item of ORDER BY, with NULLS FIRST or LAST only if it was given."""
        text = self.sql(expression, "this") + (" DESC" if expression.args.get("desc") else "")
        nulls_first = expression.args.get("nulls_first")
        if nulls_first is None:
            return text
        return f"{text} NULLS {'FIRST' if nulls_first else 'LAST'}"

    def _type_name(self, expression: trees.TypeName) -> str:
        """Write a type."""
        return expression.data_type.as_sql()

    def _typed_literal(self, expression: trees.TypedLiteral) -> str:
        """Write DATE '...' and its kin."""
        return f"{expression.args['kind']} '{expression.args['this']}'"

    def _hex_literal(self, expression: trees.HexLiteral) -> str:
        """Write X'...'."""
        return f"X'{expression.args['this']}'"

    def _difference(self, expression: trees.Difference) -> str:
        """Write (a - b) DAY TO SECOND."""
        difference = f"({self.sql(expression, 'this')} - {self.sql(expression, 'expression')})"
        return f"{difference} {self.sql(expression, 'unit')}"

    def _descriptor(self, expression: trees.Descriptor) -> str:
        """Write DESCRIPTOR(...)."""
        return f"DESCRIPTOR({self.expressions(expression, flat=True)})"

    def _table_argument(self, expression: trees.TableArgument) -> str:
        """Write TABLE t PARTITION BY ..."""
        text = f"TABLE {self.sql(expression, 'this')}"
        if expression.args.get("partition_by"):
            keys = self.expressions(expression, key="partition_by", flat=True)
            text += f" PARTITION BY ({keys})"
        order = expression.args.get("order")
        return text + (f" ORDER BY ({self.expressions(order, flat=True)})" if order else "")

    def _default_argument(self, expression: trees.DefaultArgument) -> str:
        """Write DEFAULT."""
        return "DEFAULT"

    def _table_function(self, expression: trees.TableFunctionCall) -> str:
        """Write TABLE(f(...))."""
        return self._with_alias(f"TABLE({self.sql(expression, 'this')})", expression)

    def _is_json(self, expression: trees.IsJson) -> str:
        """Write IS JSON."""
        return f"{self.sql(expression, 'this')} IS JSON {expression.args['kind']}"

    def _json_exists(self, expression: Any) -> str:
        """Write JSON_EXISTS."""
        handler = expression.args.get("on_error")
        return self._json("JSON_EXISTS", expression, f"{handler} ON ERROR" if handler else "")

    def _json_value(self, expression: Any) -> str:
        """Write JSON_VALUE."""
        return self._json("JSON_VALUE", expression, *self._handlers(expression))

    def _json_query(self, expression: trees.JsonQuery) -> str:
        """Write JSON_QUERY."""
        wrapper = {
            "WITHOUT": "WITHOUT ARRAY WRAPPER",
            "CONDITIONAL": "WITH CONDITIONAL ARRAY WRAPPER",
            "UNCONDITIONAL": "WITH UNCONDITIONAL ARRAY WRAPPER",
        }.get(expression.args.get("wrapper") or "", "")
        return self._json("JSON_QUERY", expression, wrapper, *self._handlers(expression))

    def _handlers(self, expression: exp.Expression) -> list[str]:
        found = []
        for key, event in (("on_empty", "ON EMPTY"), ("on_error", "ON ERROR")):
            handler = expression.args.get(key)
            if isinstance(handler, exp.Expression):
                found.append(f"DEFAULT {self.sql(handler)} {event}")
            elif handler:
                found.append(f"{handler} {event}")
        return found

    def _json(self, name: str, expression: exp.Expression, *clauses: str) -> str:
        returning = expression.args.get("returning")
        parts = [
            f"{self.sql(expression, 'this')}, {self.sql(expression, 'path')}",
            f"RETURNING {self.sql(returning)}" if returning else "",
            *clauses,
        ]
        return f"{name}({' '.join(part for part in parts if part)})"

    def _json_object(self, expression: Any) -> str:
        """Write JSON_OBJECT or JSON_OBJECTAGG."""
        name = "JSON_OBJECTAGG" if expression.args.get("aggregate") else "JSON_OBJECT"
        pairs = ", ".join(
            f"KEY {self.sql(pair.expressions[0])} VALUE {self.sql(pair.expressions[1])}"
            for pair in expression.expressions
        )
        return f"{name}({pairs}{_on_null(expression)})"

    def _json_array(self, expression: Any) -> str:
        """Write JSON_ARRAY or JSON_ARRAYAGG."""
        name = "JSON_ARRAYAGG" if expression.args.get("aggregate") else "JSON_ARRAY"
        return f"{name}({self.expressions(expression, flat=True)}{_on_null(expression)})"

    def _match_recognize(self, expression: Any) -> str:
        """Write MATCH_RECOGNIZE (...)."""
        args = expression.args
        parts = []
        if args.get("partition_by"):
            keys = self.expressions(expression, key="partition_by", flat=True)
            parts.append(f"PARTITION BY {keys}")
        if args.get("order"):
            parts.append(f"ORDER BY {self.expressions(args['order'], flat=True)}")
        if args.get("measures"):
            parts.append(f"MEASURES {self.expressions(expression, key='measures', flat=True)}")
        if args.get("rows"):
            parts.append(args["rows"])
        if args.get("after"):
            parts.append(self.sql(expression, "after"))
        start, end = "^ " if args.get("start") else "", " $" if args.get("end") else ""
        parts.append(f"PATTERN ({start}{self.sql(expression, 'pattern')}{end})")
        if args.get("within"):
            parts.append(f"WITHIN {self.sql(expression, 'within')}")
        if args.get("subsets"):
            subsets = (
                f"{self.sql(one, 'alias')} = {self.sql(one.this)}" for one in args["subsets"]
            )
            parts.append(f"SUBSET {', '.join(subsets)}")
        if args.get("define"):
            defined = (
                f"{self.sql(one, 'alias')} AS {self.sql(one.this)}" for one in args["define"]
            )
            parts.append(f"DEFINE {', '.join(defined)}")
        text = f"{self.sql(expression, 'this')} MATCH_RECOGNIZE ({' '.join(parts)})"
        return self._with_alias(text, expression)

    def _after_match(self, expression: trees.AfterMatch) -> str:
        """Write AFTER MATCH SKIP."""
        where = expression.args["this"]
        if where == "PAST LAST ROW":
            return f"AFTER MATCH SKIP {where}"
        variable = expression.args.get("variable")
        return f"AFTER MATCH SKIP TO {where}{f' {variable}' if variable else ''}"

    def _pattern_variable(self, expression: trees.PatternVariable) -> str:
        """Write a variable."""
        return str(expression.args["this"])

    def _pattern_sequence(self, expression: trees.PatternSequence) -> str:
        """Write patterns after each other."""
        return " ".join(self._pattern(part) for part in expression.expressions)

    def _pattern_choice(self, expression: trees.PatternChoice) -> str:
        """Write alternatives."""
        return " | ".join(self.sql(part) for part in expression.expressions)

    def _pattern_exclusion(self, expression: trees.PatternExclusion) -> str:
        """Write {- ... -}."""
        return f"{{- {self.sql(expression, 'this')} -}}"

    def _pattern_permutation(self, expression: trees.PatternPermutation) -> str:
        """Write PERMUTE(...)."""
        return f"PERMUTE({self.expressions(expression, flat=True)})"

    def _pattern_quantified(self, expression: trees.PatternQuantified) -> str:
        """Write a pattern with how often it comes."""
        low, high = expression.args["minimum"], expression.args.get("maximum")
        shown = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
        if shown is None:
            shown = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
        reluctant = "" if expression.args["greedy"] else "?"
        return f"{self._pattern(expression.this)}{shown}{reluctant}"

    def _pattern(self, part: Any) -> str:
        text = self.sql(part)
        compound = (trees.PatternChoice, trees.PatternSequence, trees.PatternQuantified)
        inside = isinstance(part, compound[:2]) or (
            isinstance(part, compound) and isinstance(part.parent, trees.PatternQuantified)
        )
        return f"({text})" if inside else text

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **glot_generator.Generator.TRANSFORMS,
        trees.TypeName: _type_name,
        trees.TypedLiteral: _typed_literal,
        trees.HexLiteral: _hex_literal,
        trees.Difference: _difference,
        trees.Descriptor: _descriptor,
        trees.TableArgument: _table_argument,
        trees.DefaultArgument: _default_argument,
        trees.TableFunctionCall: _table_function,
        trees.IsJson: _is_json,
        trees.JsonExists: _json_exists,
        trees.JsonValue: _json_value,
        trees.JsonQuery: _json_query,
        trees.JsonObject: _json_object,
        trees.JsonArray: _json_array,
        trees.MatchRecognize: _match_recognize,
        trees.AfterMatch: _after_match,
        trees.PatternVariable: _pattern_variable,
        trees.PatternSequence: _pattern_sequence,
        trees.PatternChoice: _pattern_choice,
        trees.PatternExclusion: _pattern_exclusion,
        trees.PatternPermutation: _pattern_permutation,
        trees.PatternQuantified: _pattern_quantified,
    }


_NO_PARENTHESES = (
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "LOCALTIME",
    "LOCALTIMESTAMP",
)
_WITH_WORDS = {"CEIL": "TO", "CEILING": "TO", "FLOOR": "TO", "POSITION": "IN"}


def _on_null(expression: exp.Expression) -> str:
    handler = expression.args.get("on_null")
    return f" {handler} ON NULL" if handler else ""


def _hints(hints: tuple[trees.Hint, ...]) -> str:
    shown = []
    for hint in hints:
        items = [f"'{key}' = '{value}'" for key, value in hint.options.items()]
        shown.append(f"{hint.name}({', '.join([*items, *hint.arguments])})")
    return f"/*+ {', '.join(shown)} */"


class Flink(Dialect):
    """Flink's SQL."""

    Tokenizer = FlinkTokenizer
    Parser = FlinkParser
    Generator = FlinkGenerator
