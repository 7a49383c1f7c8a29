"""An HTTP sink."""

from __future__ import annotations

from penstock.connectors.http.sink import HttpSink
from penstock.connectors.rejections import RejectedRecord

__all__ = ["HttpSink", "RejectedRecord"]
