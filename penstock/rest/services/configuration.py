"""The options of this process that may be shown, without secrets: Spark's own, and those of Penstock that its clients can use."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

import penstock
from penstock.spark.executors import spark_configuration, spark_ui

# Parts of the keys of options whose values are secret; Flink hides the same.
_SECRET: Final = (
    "password", "secret", "account.key", "apikey", "api-key", "auth-params", "service-key", "token",
    "basic-auth", "jaas.config", "http-headers", "signing.key",
)  # fmt: skip
HIDDEN: Final = "******"
SPARK_UI: Final = "penstock.spark-ui"  # not an option: the page makes a link of it


def job_manager_configuration() -> dict[str, str]:
    """Return the options that this process runs with."""
    own = {
        "penstock.version": penstock.__version__,
        "python.executable": sys.executable,
    }
    ui = spark_ui()
    if ui is not None:
        own[SPARK_UI] = ui
    return without_secrets({**spark_configuration(), **own})


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with the values of secret keys hidden.

    >>> without_secrets({"s3.secret-key": "x", "rest.port": "8081"})
    {'s3.secret-key': '******', 'rest.port': '8081'}
    """
    return {
        key: HIDDEN if any(part in key.lower() for part in _SECRET) else value
        for key, value in options.items()
    }
