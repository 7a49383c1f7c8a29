"""Split discovery in pipelined mode: a thread for each source, so that a slow enumerator does not block the job."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.jobmanager.sources.source_coordinator import DiscoveredSplits, SourceCoordinator

PERIOD_S: Final = 0.1  # from the end of a discovery to the next; a longer discovery is followed by a pause of its own duration


class DiscoveryOutcome(NamedTuple):
    """The result of a discovery: the splits that were found, or the error."""

    source: SourceCoordinator
    found: DiscoveredSplits | None
    error: Exception | None


class Discovery:
    """The split discovery of all sources of a plan. `wake` is called by other threads when there is a result."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._over: queue.SimpleQueue[tuple[_Watcher, DiscoveryOutcome]] = queue.SimpleQueue()
        self._watchers: dict[str, _Watcher] = {}  # by operator id

    def start(
        self, sources: Sequence[SourceCoordinator], timeout_s: float
    ) -> list[DiscoveryOutcome]:
        """Start the discovery of sources that were just restored.

        Waits up to `timeout_s` for their first results, which are returned.
        """
        for source in sources:
            source.begin_looking()
            watcher = self._watchers[source.operator_id] = _Watcher(source, self._put)
            watcher.start()
        until = time.monotonic() + timeout_s
        for source in sources:
            self._watchers[source.operator_id].looked.wait(max(0.0, until - time.monotonic()))
        return self.take()

    def stop(self, sources: Sequence[SourceCoordinator]) -> None:
        """Stop the discovery of these sources; results that were not taken are dropped."""
        for source in sources:
            watcher = self._watchers.pop(source.operator_id, None)
            if watcher is not None:
                watcher.stop()

    def take(self) -> list[DiscoveryOutcome]:
        """Return the new results."""
        looks: list[DiscoveryOutcome] = []
        while True:
            try:
                watcher, look = self._over.get_nowait()
            except queue.Empty:
                return looks
            # A stopped watcher belongs to a source that was restored or removed.
            if self._watchers.get(look.source.operator_id) is watcher:
                looks.append(look)

    def _put(self, watcher: _Watcher, look: DiscoveryOutcome, *, wake: bool) -> None:
        self._over.put((watcher, look))
        if wake:
            self._wake()


class _Watcher:
    """The discovery thread of one source.

    The driver is woken only if there are new splits: most discoveries find nothing.
    """

    def __init__(self, source: SourceCoordinator, put: Callable[..., None]) -> None:
        self._source = source
        self._put = put
        self._stopped = threading.Event()
        self.looked = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-splits-{source.operator_id[:8]}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; a running discovery ends later, and its result is dropped."""
        self._stopped.set()
        self._thread.join(PERIOD_S)

    def _run(self) -> None:
        first = True
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                found = self._source.look()
            except Exception as error:  # noqa: BLE001 - the user's enumerator may raise anything
                self._report(DiscoveryOutcome(self._source, None, error), wake=True)
                return
            is_last = found.no_more_splits and self._source.bounded
            self._report(
                DiscoveryOutcome(self._source, found, None),
                wake=first or is_last or bool(found.splits),
            )
            first = False
            if is_last:
                return
            self._stopped.wait(max(PERIOD_S, time.monotonic() - began))

    def _report(self, look: DiscoveryOutcome, *, wake: bool) -> None:
        if not self._stopped.is_set():
            self._put(self, look, wake=wake)
        self.looked.set()
