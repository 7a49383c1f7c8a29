"""penstock.yaml: options for all programs of a folder or a user, under Flink's names.

Keys are written whole (`execution.checkpointing.interval: 10s`) or in parts, one inside of the other. Values are taken as they are
written: YAML's own ideas of `10:30` or `on` do not count.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError
from penstock.options.configuration import Configuration
from penstock.options.option_checks import check_setting, find_option

if TYPE_CHECKING:
    from yaml import Node

FILE_NAME = "penstock.yaml"
FILE_VARIABLE = "PENSTOCK_CONFIG"


def find_config_file() -> Path | None:
    """Return the file that counts: that of PENSTOCK_CONFIG, of the working directory, or of ~/.penstock; the first that is there."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    home = Path(os.environ.get("PENSTOCK_HOME") or Path("~/.penstock").expanduser())
    return next((place for place in (Path(FILE_NAME), home / FILE_NAME) if place.is_file()), None)


def load_config_file(path: str | Path | None = None) -> tuple[Configuration, Path | None]:
    """Return the options of a file (default: the effective configuration file) and its path; none if there is no file."""
    place = Path(path) if path is not None else find_config_file()
    if place is None:
        return Configuration(), None
    try:
        status = place.stat()
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the configuration file {place}: {error.strerror}",
            hint="give an existing file with --config, or unset PENSTOCK_CONFIG",
        ) from error
    options = _read(str(place.absolute()), status.st_mtime_ns, status.st_size)
    return Configuration(options), place


@functools.lru_cache(maxsize=8)
def _read(path: str, _changed: int, _size: int) -> Configuration:
    """Read a file; every environment of a program asks for it, and it changes seldom."""
    return parse_config(Path(path).read_text(encoding="utf-8"), path)


def parse_config(text: str, name: str = FILE_NAME) -> Configuration:
    """Return the options in the text of a file; refuse what is unknown or said twice, with its line.

    >>> parse_config("{parallelism.default: 4, execution: {checkpointing: {interval: 10 s}}}").to_dict()
    {'parallelism.default': '4', 'execution.checkpointing.interval': '10 s'}
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = name if mark is None else f"{name}, line {mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigurationError(
            f"the configuration file is not valid YAML: {problem}", detail=where
        ) from None
    configuration = Configuration()
    lines: dict[str, int] = {}
    for key, value, line in _entries(root, "", name):
        where = f"{name}, line {line}"
        option = find_option(key)
        real = key if option is None else option.key
        if real in lines:
            raise ConfigurationError(
                f"option '{key}' is set twice",
                detail=f"{name}, lines {lines[real]} and {line}",
                hint=None if real == key else f"'{key}' is an older name of '{real}'",
            )
        lines[real] = line
        configuration.set(real, value)
        try:
            check_setting(key, value, where)
        except ConfigurationError as error:
            detail = where if error.detail in {None, where} else f"{where}: {error.detail}"
            raise ConfigurationError(error.message, detail=detail, hint=error.hint) from None
    return configuration


def _entries(node: Node | None, prefix: str, name: str) -> Iterator[tuple[str, Any, int]]:
    """Yield (key, value, line) of all options below a node."""
    import yaml

    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise ConfigurationError(
            "the configuration file is not a mapping of options",
            detail=f"{name}, line {node.start_mark.line + 1}",
            hint="write 'key: value', one per line",
        )
    for key_node, value in node.value:
        key = f"{prefix}{key_node.value}"
        line = key_node.start_mark.line + 1
        if isinstance(value, yaml.MappingNode):
            yield from _entries(value, f"{key}.", name)
        elif isinstance(value, yaml.SequenceNode):
            yield key, [str(item.value) for item in value.value], line
        elif value.tag.endswith(":null"):
            raise ConfigurationError(
                f"option '{key}' has no value",
                detail=f"{name}, line {line}",
                hint="write a value after the colon, or remove the line",
            )
        else:
            yield key, str(value.value), line
