"""Flink's streaming model, in Python, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics of notebooks: called by `%load_ext penstock`."""
    from penstock.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take them away again: called by `%unload_ext penstock`."""
    from penstock.notebook.extension import unload

    unload(shell)
