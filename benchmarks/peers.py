"""What a Python user might pick instead, where it can be installed: each in an environment of its own."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
HOME = HERE / ".peers"
PEERS = ("Bytewax", "Pathway", "Spark Structured Streaming")
NOTES = "Quix Streams reads from Kafka only: `python -m benchmarks.kafka` has it."


def command(name: str, job: str) -> list[str]:
    """Return how a job of a library is started."""
    script = HERE / "peer_jobs" / f"{name.split(maxsplit=1)[0].lower()}_{job}.py"
    if name.startswith("Spark"):
        return [sys.executable, str(script)]
    home = HOME / name.replace(" ", "").lower()
    return [str(home / "bin" / "python"), str(script)]


def is_installed(name: str) -> bool:
    """Whether there is an interpreter for its jobs."""
    return Path(command(name, "windows")[0]).exists()
