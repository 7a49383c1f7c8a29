"""Contenders that write down what they are told."""

from __future__ import annotations

import threading


class Recorder:
    """A contender that remembers its tokens."""

    def __init__(self) -> None:
        self.told: list[int | None] = []  # tokens, None for a leadership that was revoked
        self.leads = threading.Event()

    def on_granted(self, token: int) -> None:
        self.told.append(token)
        self.leads.set()

    def on_revoked(self) -> None:
        self.told.append(None)
        self.leads.clear()

    @property
    def tokens(self) -> list[int]:
        return [token for token in self.told if token is not None]
