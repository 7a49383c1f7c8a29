"""Waiting until a connector has noticed what happened to its server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.connectors.base.retrying import Backoff


class _Listener(logging.Handler):
    def __init__(self, text: str) -> None:
        super().__init__(logging.DEBUG)
        self.text, self.heard = text, threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.text in record.getMessage():
            self.heard.set()


@contextmanager
def message(logger: str, text: str = "") -> Iterator[threading.Event]:
    """Give an event that is set when a logger, or one below it, says something with a text in it."""
    listener, source = _Listener(text), logging.getLogger(logger)
    level = source.level
    source.addHandler(listener)
    source.setLevel(logging.INFO)
    try:
        yield listener.heard
    finally:
        source.setLevel(level)
        source.removeHandler(listener)


@contextmanager
def retry() -> Iterator[threading.Event]:
    """Give an event that is set when a connector is about to try something again."""
    pauses, tried = Backoff.pauses, threading.Event()

    def noted(backoff: Backoff) -> Iterator[float]:
        for pause in pauses(backoff):
            tried.set()
            yield pause

    Backoff.pauses = noted  # type: ignore[method-assign]
    try:
        yield tried
    finally:
        Backoff.pauses = pauses  # type: ignore[method-assign]
