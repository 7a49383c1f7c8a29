"""Cells as a notebook runs them: in IPython itself, with what they display."""

from __future__ import annotations

import atexit
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.notebook.extension import unload


class Notebook:
    """A shell of IPython without a terminal."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    @property
    def names(self) -> dict[str, Any]:
        """The variables of the cells."""
        return self.shell.user_ns

    def run(self, cell: str) -> list[str]:
        """Run a cell; return all HTML that it has shown, with updates and its value. An error of the cell is raised."""
        from IPython.utils.capture import capture_output

        with capture_output() as captured:
            done = self.shell.run_cell(cell)
        self.printed = captured.stdout
        if done.error_in_exec is not None or done.error_before_exec is not None:
            raise done.error_in_exec or done.error_before_exec
        shown = [each.data for each in captured.outputs]
        if done.result is not None:
            shown.append(self.shell.display_formatter.format(done.result)[0])
        return [each["text/html"] for each in shown if "text/html" in each]

    def run_file(self, path: Path) -> list[list[str]]:
        """Run the cells of a notebook; return what each has shown."""
        cells = json.loads(path.read_text())["cells"]
        return [self.run("".join(each["source"])) for each in cells if each["cell_type"] == "code"]


@contextmanager
def notebook(directory: Path) -> Iterator[Notebook]:
    """Start a shell that keeps its files in a directory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of IPython's own modules, as they are imported
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config, ipython_dir=str(directory))
    try:
        yield Notebook(shell)
    finally:
        unload(shell)
        shell.atexit_operations()
        atexit.unregister(shell.atexit_operations)
        InteractiveShell.clear_instance()
