"""Files that DataFrames read, and when they go: once no plan in Spark refers to them, and at the end of the process.

Spark deletes shuffle files and broadcasts in the same way: an object in the JVM stands for them, and the garbage collector says that it
is gone. Here it is the function that reads the files. Every DataFrame, view and cached table that is made of the first one refers to it.
"""

from __future__ import annotations

import atexit
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.files.file_system import resolve

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)
_LOOK_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Owned:
    """A directory, and the weak reference in the JVM to what reads it."""

    directory: str
    context: SparkContext
    reader: Any

    def is_unused(self) -> bool:
        """Whether nothing can read the files any more."""
        if self.context._jsc is None:  # noqa: SLF001 - the context was stopped, and its DataFrames with it
            return True
        return bool(self.reader.refersTo(None))


class FrameFiles:
    """The directories that DataFrames of this process read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owned: list[_Owned] = []
        self._watched = False

    def own(self, frame: DataFrame, directory: str) -> None:
        """Delete a directory when nothing made of this DataFrame can be read any more; `frame` is one of `staged_frame`."""
        context = frame.sparkSession.sparkContext
        function = frame._jdf.queryExecution().analyzed().functionExpr().func()  # noqa: SLF001
        reader = context._jvm.java.lang.ref.WeakReference(function)  # noqa: SLF001
        with self._lock:
            self._owned.append(_Owned(directory, context, reader))
            if not self._watched:
                self._watched = True
                atexit.register(self.remove_all)
                threading.Thread(
                    target=self._watch, name="penstock-frame-files", daemon=True
                ).start()

    def remove_unused(self) -> None:
        """Delete what is not used any more."""
        with self._lock:
            unused = [each for each in self._owned if _is_unused(each)]
            self._owned = [each for each in self._owned if each not in unused]
        for each in unused:
            remove_directory(each.directory)

    def remove_all(self) -> None:
        """Delete everything: the process ends."""
        with self._lock:
            owned, self._owned = self._owned, []
        for each in owned:
            remove_directory(each.directory)

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(_LOOK_S)
            self.remove_unused()


def _is_unused(owned: _Owned) -> bool:
    try:
        return owned.is_unused()
    except Exception:  # noqa: BLE001 - the JVM is gone, and with it all DataFrames
        return True


def remove_directory(directory: str) -> None:
    """Delete a directory of files; what cannot be deleted is left, with a line in the log."""
    files, path = resolve(directory)
    try:
        files.delete_tree(path)
    except Exception:  # noqa: BLE001 - it is not read any more
        _log.warning("could not delete %s, which a DataFrame has read", directory, exc_info=True)


frame_files = FrameFiles()
