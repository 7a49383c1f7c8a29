"""The ways to run a job, for tests that say the same about each of them."""

from __future__ import annotations

EPOCHS = "epochs"
PIPELINED = "pipelined"
MODES = (EPOCHS, PIPELINED)


def runs_in(mode: str) -> dict[str, str]:
    """Return the options of a job that runs in a mode, also one whose sources end."""
    return {"penstock.execution.mode": mode}
