"""Programs that spark-submit runs, in client or in cluster mode: their JVM is there before them, with its own options.

On YARN in cluster mode that JVM is the application master, and Spark runs the program in its container.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Final

from penstock.errors import SuppressRestartsError

_log = logging.getLogger(__name__)

# PySpark's own way to find a JVM that is there. As it was at first: `LocalJvm` sets it for a moment, too.
_IS_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT" in os.environ
_MODE: Final = "spark.submit.deployMode"
_OF_SUBMIT: Final = ("spark.master", _MODE)


class ApplicationEndedError(SuppressRestartsError):
    """The application of a program in cluster mode has ended, and the program ends with it."""


def is_submitted() -> bool:
    """Whether spark-submit has started this program."""
    return _IS_SUBMITTED


@cache  # the JVM may be gone later
def submitted_options() -> Mapping[str, str]:
    """Return the options of spark-submit, its command line and its files."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - PySpark does so for a SparkContext
    return {str(key): str(value) for key, value in SparkConf().getAll()}


def without_submits(options: Mapping[str, str], submitted: Mapping[str, str]) -> dict[str, str]:
    """Return the program's options without those that only spark-submit decides."""
    for key in _OF_SUBMIT:
        if options.get(key, submitted.get(key)) != submitted.get(key):
            _log.warning(
                "%s=%s is ignored: spark-submit has started this program with %s",
                key,
                options[key],
                submitted.get(key),
            )
    return {key: value for key, value in options.items() if key not in _OF_SUBMIT}


def in_cluster_mode(options: Mapping[str, str]) -> bool:
    """Whether the driver runs on the cluster."""
    return options.get(_MODE) == "cluster"


def ended() -> ApplicationEndedError:
    """Return the error of a program whose application has ended in cluster mode."""
    return ApplicationEndedError(
        "the Spark application of this program has ended",
        detail="in cluster mode the application cannot be started again from within",
        hint="the cluster starts it again (spark.yarn.maxAppAttempts); with high availability its jobs resume from their last checkpoints",
    )
