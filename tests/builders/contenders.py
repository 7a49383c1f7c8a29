"""Contenders that record their notifications."""

from __future__ import annotations

import threading


class Recorder:
    """A contender that remembers its tokens."""

    def __init__(self) -> None:
        self.reported: list[int | None] = []  # tokens, None for a leadership that was revoked
        self.leads = threading.Event()

    def on_granted(self, token: int) -> None:
        self.reported.append(token)
        self.leads.set()

    def on_revoked(self) -> None:
        self.reported.append(None)
        self.leads.clear()

    @property
    def tokens(self) -> list[int]:
        return [token for token in self.reported if token is not None]
