"""The options that belong to a session: a job cannot change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock import options
from penstock.options.configuration import Configuration
from penstock.options.option_checks import other_names, override

# Address and web page of the session, metric reporters, high availability, Spark application
_PREFIXES: Final = (
    "high-availability", "kubernetes.", "metrics.reporter", "penstock.high-availability.", "penstock.rest.", "rest.", "security.ssl.",
    options.SPARK_PREFIX,
)  # fmt: skip
_KEYS: Final = frozenset(
    option.key
    for option in (
        options.EXECUTION_TARGET,
        options.LOG_DIR,
        options.TASK_SLOTS,
        options.WEB_CANCEL,
        options.WEB_REFRESH_INTERVAL,
        options.WEB_RESCALE,
        options.WEB_SUBMIT,
    )
)
# These are hidden from jobs.
_OF_NO_JOB: Final = ("rest.", "high-availability", options.EXECUTION_TARGET.key)
# A client finds its session with these.
_OF_CLIENTS: Final = frozenset(
    option.key
    for option in (
        options.EXECUTION_TARGET,
        options.REST_ADDRESS,
        options.REST_PORT,
        options.REST_SSL_ENABLED,
        options.REST_SSL_TRUSTSTORE,
    )
)


def is_of_session(key: str) -> bool:
    """Whether an option, under any of its names, is a session's.

    >>> is_of_session("web.submit.enable"), is_of_session("jobmanager.web.submit.enable"), is_of_session("state.backend.type")
    (True, True, False)
    """
    return any(name in _KEYS or name.startswith(_PREFIXES) for name in (key, *other_names(key)))


def options_of_job(session: Configuration, job: Mapping[str, str]) -> Configuration:
    """Return the options of a job in a session: the session's, overridden by the job's own."""
    own = {key: value for key, value in job.items() if not is_of_session(key)}
    shared = {
        key: value for key, value in session.to_dict().items() if not key.startswith(_OF_NO_JOB)
    }
    return override(Configuration.from_dict(shared), Configuration.from_dict(own))


def ignored_options(session: Configuration, job: Mapping[str, str]) -> list[str]:
    """Return the options of a job that have no effect because the session has other values for them."""
    values = session.to_dict()
    return sorted(
        key
        for key, value in job.items()
        if is_of_session(key)
        and key not in _OF_CLIENTS
        and value not in {values.get(name) for name in (key, *other_names(key))}
    )
