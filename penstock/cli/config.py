"""`penstock config`: the effective options, and where each comes from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.output import print_json, print_line, print_table
from penstock.cli.program_options import add_json, add_options, run_options
from penstock.options import OPTIONS, SPARK_PREFIX
from penstock.options.config_file import load_config_file
from penstock.options.config_options import ConfigOption
from penstock.options.config_values import to_text
from penstock.options.configuration import Configuration, shown
from penstock.options.option_checks import find_option, support_of

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

COMMAND_LINE, PROGRAM, DEFAULT = "command line", "program", "default"
_MASTER, _MASTER_VARIABLE = "spark.master", "SPARK_MASTER"
_DESCRIPTION = """\
Show the effective options and where each comes from. The command line overrides the program, the program overrides penstock.yaml, and that overrides
the defaults. A given program is run up to its first execute(), and the options that it sets are shown too. SUPPORT says whether an option works as in Flink.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """The effective value of an option and its origin."""

    key: str
    value: str | None  # None: no value
    origin: str

    def to_json(self) -> dict[str, Any]:
        """Return the setting as JSON values, with the description of the option and how far it is supported."""
        option = find_option(self.key)
        return {
            "key": self.key,
            "value": self.value,
            "origin": self.origin,
            "description": "" if option is None else option.description,
            "support": self.support,
            "note": "" if option is None else support_of(self.key).note,
        }

    @property
    def support(self) -> str:
        """Whether the option works here. A key that is not an option of Penstock or Flink is Spark's or the program's own."""
        if find_option(self.key) is not None:
            return support_of(self.key).support.value
        return "Spark's" if self.key.startswith(SPARK_PREFIX) else "the program's"


def settings_of(
    counts: Configuration,
    command_line: Configuration,
    file: Configuration,
    place: Path | None,
    *,
    defaults: bool = False,
) -> Iterator[Setting]:
    """Yield the options that are set, by key, each with its origin; with `defaults` also those that are not set."""
    values = counts.to_dict()
    for key in sorted({*values, *(OPTIONS if defaults else ())}):
        if key not in values:
            yield Setting(key, _default(OPTIONS[key]), DEFAULT)
            continue
        if command_line.contains_key(key):
            origin = COMMAND_LINE
        elif file.contains_key(key) and file.to_dict()[key] == values[key]:
            origin = str(place)
        else:
            origin = PROGRAM
        yield Setting(key, shown(key, values[key]), origin)
    variable = os.environ.get(_MASTER_VARIABLE)
    if variable and _MASTER not in values:
        yield Setting(_MASTER, variable, f"environment variable {_MASTER_VARIABLE}")


def add_commands(commands: Commands) -> None:
    """Add `penstock config` to the command line."""
    parser = commands.add_parser(
        "config", help="show options and where they come from", description=_DESCRIPTION
    )
    parser.set_defaults(call=_config)
    parser.add_argument("-a", "--all", action="store_true", help="show defaults as well")
    parser.add_argument(
        "-k",
        "--key",
        metavar="KEY",
        help="show one option with its description and how far it is supported, or all options below a key",
    )
    add_json(parser)
    add_options(parser, program=False)


def _config(given: argparse.Namespace) -> int:
    from penstock.cli.capture import capture
    from penstock.cli.run import configuration_of

    options = run_options(given)
    command_line = configuration_of(options)
    file, place = load_config_file(given.config)
    counts = Configuration(file).add_all(command_line)
    if given.script is not None:
        captured = capture(options)
        if isinstance(captured, int):
            return captured
        counts = captured.configuration
    everything = given.all or given.key is not None
    settings = list(settings_of(counts, command_line, file, place, defaults=everything))
    if given.key is not None:
        settings = _below(given.key, settings)
    if given.json:
        print_json([setting.to_json() for setting in settings])
    elif len(settings) == 1 and given.key is not None:
        _show_one(settings[0])
    elif settings:
        rows = [
            (each.key, each.value if each.value is not None else "-", each.origin, each.support)
            for each in settings
        ]
        print_table([("OPTION", "VALUE", "FROM", "SUPPORT"), *rows])
    else:
        print_line("no option is set; --all shows the defaults")
    return 0


def _below(key: str, settings: list[Setting]) -> list[Setting]:
    from penstock.options.flink import flink_options
    from penstock.options.option_checks import check_key

    option = find_option(key)
    real = key if option is None else option.key
    shown_keys = {each.key for each in settings}
    of_flink = [
        Setting(each.key, _default(each), DEFAULT)
        for each in flink_options().by_key.values()
        if each.key not in shown_keys
    ]
    found = [
        each
        for each in sorted([*settings, *of_flink], key=lambda each: each.key)
        if each.key == real or each.key.startswith(f"{real}.")
    ]
    if not found:
        check_key(key)
        return [Setting(key, None, DEFAULT)]  # an option of Flink or Spark that is not set
    return [each for each in found if each.key == real] or found


def _default(option: ConfigOption[Any]) -> str | None:
    return None if option.default is None else to_text(option.default)


def _show_one(setting: Setting) -> None:
    print_line(f"{setting.key}: {'-' if setting.value is None else setting.value}")
    print_line(f"from: {setting.origin}")
    option = find_option(setting.key)
    if option is not None:
        print_line(f"default: {_default(option) or '-'}")
        for older in option.deprecated_keys:
            print_line(f"older name: {older}")
        note = support_of(setting.key).note
        print_line(f"support: {setting.support}{f', {note}' if note else ''}")
        if option.description:
            print_line(f"\n{option.description}")
