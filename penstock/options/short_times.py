"""Times without a unit, which are milliseconds, that are so short that seconds were probably meant."""

from __future__ import annotations

from typing import Final

from penstock import options

# By option: from how many milliseconds on a time is plausible, and what a shorter one does.
_LEAST: Final = {
    options.CHECKPOINT_INTERVAL.key: (100, "a checkpoint is taken every {} ms"),
    options.CHECKPOINT_TIMEOUT.key: (1000, "a checkpoint fails if it takes more than {} ms"),
    options.CHECKPOINT_MIN_PAUSE.key: (100, "checkpoints are at least {} ms apart"),
    options.HEARTBEAT_TIMEOUT.key: (1000, "a slot is lost after {} ms without a heartbeat"),
    options.FIXED_DELAY_DELAY.key: (100, "a failed job starts again after {} ms"),
    options.FAILURE_RATE_DELAY.key: (100, "a failed job starts again after {} ms"),
    "table.exec.source.idle-timeout": (100, "a source counts as idle after {} ms without records"),
}


def short_time(key: str, value: object) -> str | None:
    """Return what to say about a time that an option is set to; None if it has a unit, or is long enough.

    >>> short_time("execution.checkpointing.interval", 10)
    "a checkpoint is taken every 10 ms: a number without a unit is milliseconds. Write 10000 if seconds are meant, else Duration.of_millis(10), or '10 ms' in a configuration (option 'execution.checkpointing.interval')"
    >>> short_time("execution.checkpointing.interval", "10 ms"), short_time("execution.checkpointing.interval", 5000)
    (None, None)
    """
    millis = _without_unit(value)
    if key not in _LEAST or millis is None:
        return None
    least, effect = _LEAST[key]
    if not 0 < millis < least:
        return None
    return (
        f"{effect.format(millis)}: a number without a unit is milliseconds. Write {millis * 1000} if seconds are meant, else "
        f"Duration.of_millis({millis}), or '{millis} ms' in a configuration (option '{key}')"
    )


def _without_unit(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdigit() else None
