"""Delivery guarantees of sinks."""

from __future__ import annotations

import enum


class DeliveryGuarantee(enum.Enum):
    """How often a record is delivered if there are failures."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
