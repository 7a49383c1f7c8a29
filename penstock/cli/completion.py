"""`penstock completion`: shell completion of commands, options, option keys and job names.

The script that a shell loads only calls `penstock __complete` with the words up to the cursor. It prints the candidates, one per
line, each with its description after a tab. So all shells complete the same, and new commands need no extra code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

ASK = "__complete"
FILES = ":files"  # printed where a path is expected: shells complete paths better themselves

_BASH = """\
_penstock() {
    local IFS=$'\\n' line word=${COMP_LINE:0:COMP_POINT} words
    COMPREPLY=()
    words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    for line in $(penstock __complete "${words[@]}" 2>/dev/null); do
        if [[ $line == :files ]]; then compopt -o default; else COMPREPLY+=("${line%%$'\\t'*}"); fi
    done
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -F _penstock penstock
"""
_ZSH = """\
#compdef penstock
_penstock() {
    local -a found; local line
    for line in "${(@f)$(penstock __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then _files
        elif [[ -n $line ]]; then found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}"); fi
    done
    (( ${#found} )) && _describe penstock found
}
compdef _penstock penstock
"""
_FISH = """\
function __penstock_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (penstock __complete $words[2..] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c penstock -f -a "(__penstock_complete)"
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_commands(commands: Commands) -> None:
    """Add `penstock completion` to the command line."""
    parser = commands.add_parser(
        "completion",
        help="print a shell completion script",
        description="Print a script with which a shell completes commands, options, option keys and job names.",
    )
    parser.add_argument("shell", choices=sorted(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(call=_print)


def _print(given: argparse.Namespace) -> int:
    sys.stdout.write(SCRIPTS[given.shell])
    return 0


def answer(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Print the candidates for the last word."""
    for candidate, meaning in candidates(parser, words):
        sys.stdout.write(f"{candidate}\t{meaning}\n" if meaning else f"{candidate}\n")
    return 0


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the candidates for the last of the words, each with its description."""
    *before, begun = words or [""]
    waiting: argparse.Action | None = None  # an option whose value comes next
    given = 0  # positional arguments so far
    for word in before:
        if waiting is not None:
            waiting = None
            continue
        if word.startswith("-"):
            option = _options(parser).get(word)
            waiting = option if option is not None and option.nargs != 0 else None
            continue
        choices = _sub_commands(parser)
        if word in choices:
            parser, given = choices[word], 0
        else:
            given += 1
    if waiting is not None:
        return _starting(begun, _values(waiting))
    if begun.startswith("-"):
        return _starting(
            begun, ((name, _help(option)) for name, option in _options(parser).items())
        )
    choices = _sub_commands(parser)
    if choices:
        return _starting(begun, ((name, _summary(parser, name)) for name in choices))
    places = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001
    if given < len(places):
        return _starting(begun, _values(places[given]))
    return [(FILES, "")] if places and places[-1].nargs == argparse.REMAINDER else []


def _starting(begun: str, found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [each for each in found if each[0].startswith(begun) or each[0] == FILES]


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return parser._option_string_actions  # noqa: SLF001 - argparse offers no other access to its options


def _sub_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _summary(parser: argparse.ArgumentParser, name: str) -> str:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for choice in action._choices_actions:  # noqa: SLF001
                if choice.dest == name:
                    return choice.help or ""
    return ""


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _values(action: argparse.Action) -> list[tuple[str, str]]:
    """Return the possible values of an argument."""
    if action.choices is not None:
        return [(str(choice), "") for choice in action.choices]
    name = str(action.metavar or action.dest)
    if name == "JOB":
        return _jobs()
    if name == "KEY=VALUE":
        return [(f"{key}=", meaning) for key, meaning in _keys()]
    if name == "KEY":
        return _keys()
    return (
        [(FILES, "")]
        if name in {"PROGRAM", "PATH", "PATHS", "PATH1", "PATH2", "DIR", "FILE", "..."}
        else []
    )


def _keys() -> list[tuple[str, str]]:
    from penstock.options import OPTIONS

    return [(key, option.description) for key, option in sorted(OPTIONS.items())]


def _jobs() -> list[tuple[str, str]]:
    from penstock.cli.reach import find_jobs

    running = [job for job in find_jobs() if job.runs]
    names = [job.name for job in running]
    unique = [(job.name, job.state) for job in running if names.count(job.name) == 1]
    return [*unique, *((job.id, job.name) for job in running)]
