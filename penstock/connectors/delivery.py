"""How often a record reaches the outside after failures."""

from __future__ import annotations

import enum


class DeliveryGuarantee(enum.Enum):
    """How often a record reaches the outside after failures."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
