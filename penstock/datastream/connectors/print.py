"""A sink that prints records on the driver's standard output."""

from __future__ import annotations

from penstock.connectors.base.staged_sinks import PrintSink

__all__ = ["PrintSink"]
