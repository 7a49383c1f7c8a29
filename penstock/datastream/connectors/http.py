"""An HTTP sink."""

from __future__ import annotations

from penstock.connectors.base.rejections import RejectedRecord
from penstock.connectors.http.sink import HttpSink

__all__ = ["HttpSink", "RejectedRecord"]
