"""Names of functions: those that operators stand for, and the auxiliary ones of group windows."""

from __future__ import annotations

from sqlglot import exp

#: By trees of sqlglot with two operands.
BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Like: "LIKE",
    exp.SimilarTo: "SIMILAR TO",
}

#: The auxiliary functions of group windows: the window and its property.
WINDOW_PROPERTIES = {
    f"{kind}_{what}": (kind, what.lower())
    for kind in ("TUMBLE", "HOP", "SESSION")
    for what in ("START", "END", "ROWTIME", "PROCTIME")
}
