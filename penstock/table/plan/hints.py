"""What hints behind SELECT say about state."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.common.config_values import parse_duration
from penstock.table.errors import ValidationError
from penstock.table.sql.trees import Hint


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
                    f"STATE_TTL of '{name}' is no duration: '{text}'",
                    hint="write STATE_TTL('table' = '1 d')",
                    position=hint.position,
                    statement=statement or None,
                ) from None
    return found
