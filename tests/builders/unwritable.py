"""A directory that the tests' user may not write to, be it root or not."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_UNPRIVILEGED = 65534


@contextlib.contextmanager
def unwritable_directory() -> Iterator[Path]:
    """Return a directory that can be read only. Root may write everywhere, so the process is another user meanwhile."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        directory = Path(above) / "unwritable"
        directory.mkdir()
        directory.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(_UNPRIVILEGED)
        try:
            yield directory
        finally:
            os.seteuid(user)
            directory.chmod(0o755)
