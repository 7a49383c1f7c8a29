"""`penstock info` and `penstock version`: what a bug report should contain."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.cli.output import print_json, print_line
from penstock.cli.program_options import add_json
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands


def add_commands(commands: Commands) -> None:
    """Add `info` and `version` to the command line."""
    parser = commands.add_parser(
        "info",
        help="show versions and paths",
        description="Show versions and paths, for bug reports.",
    )
    parser.set_defaults(call=_info)
    add_json(parser)
    version = commands.add_parser(
        "version", help="show the version", description="Show the version of Penstock."
    )
    version.set_defaults(call=_version)
    add_json(version)


def _info(given: argparse.Namespace) -> int:
    facts = info()
    if given.json:
        print_json(facts)
    else:
        for name, value in facts.items():
            print_line(f"{name:<9} {value}")
    return 0


def _version(given: argparse.Namespace) -> int:
    versions = {
        "penstock": penstock.__version__,
        "pyspark": _version_of("pyspark"),
        "python": platform.python_version(),
    }
    if given.json:
        print_json(versions)
    else:
        print_line(f"penstock {versions['penstock']}")
    return 0


def info() -> dict[str, str]:
    """Return versions and paths."""
    from penstock.options.config_file import find_config_file
    from penstock.spark.gateway import find_java

    try:
        java = find_java()
    except PenstockError as error:
        java = error.message
    return {
        "penstock": f"{penstock.__version__} ({Path(penstock.__file__).parent})",
        "python": f"{platform.python_version()} ({sys.executable})",
        "pyspark": _version_of("pyspark"),
        "pyarrow": _version_of("pyarrow"),
        "pyflink": _version_of("apache-flink"),
        "java": java,
        "master": os.environ.get("SPARK_MASTER", "all cores of this machine"),
        "config": str(find_config_file() or "no penstock.yaml"),
        "platform": platform.platform(),
    }


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
