"""Where Spark puts the Unix sockets of Python workers: in a directory whose path is short enough for one.

The path of a Unix socket has at most 107 bytes on Linux and 103 on macOS. Spark takes Java's temporary directory, on the driver and on the
executors. That of a YARN container alone is longer than that, and no task would start.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.errors import PenstockError
from penstock.processes import temporary

_log = logging.getLogger(__name__)

ENABLED: Final = "spark.python.unix.domain.socket.enabled"
DIRECTORY: Final = "spark.python.unix.domain.socket.dir"
_LONGEST_PATH: Final = 103 if sys.platform == "darwin" else 107
_NAME_BYTES: Final = len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
_TEMPORARY: Final = re.compile(r"-Djava\.io\.tmpdir=(\S+)")
_JAVA_DEFAULT: Final = "/tmp"  # noqa: S108 - of Java on Linux
_OF_A_CONTAINER: Final = "<local-dir>/usercache/<user>/appcache/application_<time>_<number>/container_<time>_<number>_01_000001/tmp"
# Every machine has them. A socket that Spark makes there can be used by its owner only.
_SHORT_DIRECTORIES: Final = ("/tmp", "/var/tmp")  # noqa: S108


def fits(directory: str) -> bool:
    """Whether the path of a socket in a directory is short enough.

    >>> fits("/tmp"), fits("/tmp/" + 80 * "x")
    (True, False)
    """
    return len(os.fsencode(directory)) + _NAME_BYTES <= _LONGEST_PATH


def socket_options(
    properties: Mapping[str, str], short: Sequence[str] = _SHORT_DIRECTORIES
) -> dict[str, str]:
    """Return the options that let the sockets of Python workers have a place; none if Spark's own choice is good.

    `properties` are Spark's options, the user's included. Where tasks run on other machines, the directory must be one that these have: /tmp.
    On a local master it is a directory that only this process uses, below one of `short`.
    """
    if properties.get(ENABLED) != "true":
        return {}
    chosen = properties.get(DIRECTORY)
    if chosen is not None:
        if fits(chosen):
            return {}
        raise PenstockError(
            f"the path of {DIRECTORY} is too long for Unix sockets: '{chosen}'",
            detail=f"sockets in it have paths of {len(os.fsencode(chosen)) + _NAME_BYTES} bytes, the limit is {_LONGEST_PATH}",
            hint=f"choose a directory with a shorter path, or set {ENABLED} to false",
        )
    too_long = [each for each in _java_directories(properties) if not fits(each)]
    if not too_long:
        return {}
    place = _private_directory(short) if _is_local(properties) else _JAVA_DEFAULT
    if place is None:
        _log.warning(
            "tasks and Spark communicate over TCP, which takes about 40 ms more per task: the path '%s' is too long for Unix sockets,"
            " and none of %s is writable; set %s",
            too_long[0],
            ", ".join(short),
            DIRECTORY,
        )
        return {ENABLED: "false"}
    _log.info(
        "the Unix sockets of Python workers are in %s: the path '%s' is too long for them",
        place,
        too_long[0],
    )
    return {DIRECTORY: place}


def _is_local(properties: Mapping[str, str]) -> bool:
    master = properties["spark.master"]
    return master == "local" or master.startswith("local[")


def _java_directories(properties: Mapping[str, str]) -> list[str]:
    """Return Java's temporary directories of the driver and of the executors, as far as they are known."""
    before = _of_environment("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    behind = _of_environment("_JAVA_OPTIONS")  # which goes before the command line
    driver = _directory_of([*before, *_java_options(properties, "driver"), *behind])
    if _is_local(properties):
        return [driver]
    if properties["spark.master"].startswith("yarn"):  # whatever the options say
        return [driver, _OF_A_CONTAINER]
    return [driver, _directory_of(_java_options(properties, "executor"))]


def _of_environment(*names: str) -> list[str]:
    return [os.environ.get(name, "") for name in names]


def _java_options(properties: Mapping[str, str], role: str) -> list[str]:
    names = (f"spark.{role}.defaultJavaOptions", f"spark.{role}.extraJavaOptions")
    return [properties.get(name, "") for name in names]


def _directory_of(java_options: Sequence[str]) -> str:
    given = _TEMPORARY.findall(" ".join(java_options))
    return given[-1] if given else _JAVA_DEFAULT


def _private_directory(roots: Sequence[str]) -> str | None:
    """Make a directory of this process only, below the first of some that can be written to."""
    for root in roots:
        try:
            directory = temporary.create_directory("sockets", root)
        except OSError:
            continue
        if fits(directory):
            atexit.register(shutil.rmtree, directory, ignore_errors=True)
            return directory
        shutil.rmtree(directory, ignore_errors=True)
    return None
