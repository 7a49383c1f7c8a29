"""Loads and unloads the extension of IPython."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_HTML = "text/html"
_NAME = "PenstockMagics"


def load(shell: InteractiveShell) -> None:
    """Add magics and formatters to a shell."""
    from penstock.notebook.displays import FORMATTERS
    from penstock.notebook.magics import PenstockMagics

    shell.register_magics(PenstockMagics)
    html = shell.display_formatter.formatters[_HTML]
    for kind, show in FORMATTERS.items():
        html.for_type(kind, show)


def unload(shell: InteractiveShell) -> None:
    """Take them away again; jobs run on Spark."""
    from penstock.notebook.displays import FORMATTERS

    magics = shell.magics_manager.registry.pop(_NAME, None)
    if magics is None:
        return
    magics.leave()
    for kind, names in magics.magics.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    for kind in FORMATTERS:
        shell.display_formatter.formatters[_HTML].pop(kind, None)
