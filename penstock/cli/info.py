"""`penstock info`: what a report of a problem should say."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import penstock
from penstock.errors import PenstockError


def info() -> str:
    """Return versions and places, one a line."""
    from penstock.spark.gateway import find_java

    try:
        java = find_java()
    except PenstockError as error:
        java = error.message
    facts = {
        "penstock": f"{penstock.__version__} ({Path(penstock.__file__).parent})",
        "python": f"{platform.python_version()} ({sys.executable})",
        "pyspark": _version("pyspark"),
        "pyarrow": _version("pyarrow"),
        "pyflink": _version("apache-flink"),
        "java": java,
        "master": os.environ.get("SPARK_MASTER", "all cores of this machine"),
        "platform": platform.platform(),
    }
    return "".join(f"{name:<9} {value}\n" for name, value in facts.items())


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
