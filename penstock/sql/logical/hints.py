"""State hints after SELECT."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.options.config_values import parse_duration
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.parse.trees import Hint


def about_tables(hints: Sequence[Hint], joined: bool, grouped: bool) -> list[Hint]:
    """Return the hints that a SELECT heeds: without a join or groups there is nothing that they could be about, and Flink passes over them."""
    return [hint for hint in hints if joined or (grouped and hint.name == "STATE_TTL")]


def check_names(hints: Sequence[Hint], known: Sequence[str], statement: str = "") -> None:
    """Reject hints about tables that are not in FROM."""
    for hint in hints:
        if hint.name == "STATE_TTL":
            named = list(hint.options)
        elif hint.name == "LOOKUP":
            named = [value for key, value in hint.options.items() if key == "table"]
        else:
            named = list(hint.arguments)
        for name in named:
            if name.rpartition(".")[2].lower() not in {each.lower() for each in known}:
                raise ValidationError(
                    f"hint {hint.name} refers to '{name}', which is not a table of this SELECT",
                    hint=did_you_mean(name, known) or f"available tables: {', '.join(known)}",
                    position=hint.position,
                    length=len(hint.name),
                    statement=statement or None,
                )


def state_ttl(hints: Sequence[Hint], statement: str = "") -> dict[str, int]:
    """Return STATE_TTL('table' = '1d'): milliseconds by the name of the table."""
    found: dict[str, int] = {}
    for hint in hints:
        if hint.name != "STATE_TTL":
            continue
        for name, text in hint.options.items():
            try:
                found[name] = int(parse_duration(text).to_millis())
            except ValueError:
                raise ValidationError(
                    f"invalid duration '{text}' in STATE_TTL of '{name}'",
                    hint="write STATE_TTL('table' = '1 d')",
                    position=hint.position,
                    statement=statement or None,
                ) from None
    return found
