"""Sinks whose writers remember what they wrote."""

from __future__ import annotations

from penstock.connectors.base.sink import Sink, SinkWriter
from tests.builders.scripted import LOG


class Writer(SinkWriter):
    """Remembers all values that it and its predecessors have written, unless "forget" is among them."""

    def __init__(self, context, restored):
        LOG(("created", context.subtask, restored))
        self.seen = list(restored or ())

    def write(self, values, timestamps, watermark):
        self.seen += values

    def prepare_commit(self):
        return []

    def snapshot(self):
        return None if "forget" in self.seen else self.seen


class Remembering(Sink):
    def create_writer(self, context, restored=None):
        return Writer(context, restored)


class Merging(Remembering):
    def merge_writer_states(self, states):
        LOG(("merged", tuple(map(tuple, states))))
        return [value for state in states for value in state]
