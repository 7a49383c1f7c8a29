"""The name under which package indexes have Penstock. The import name and the command are `penstock`."""

from __future__ import annotations

from typing import Final

DISTRIBUTION: Final = "penstock-stream"


def install_command(extra: str = "") -> str:
    """Return the command that installs Penstock, with an extra if one is given.

    >>> install_command()
    'pip install penstock-stream'
    >>> install_command("kafka")
    "pip install 'penstock-stream[kafka]'"
    """
    # Quoted: brackets are patterns of file names in zsh.
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"
