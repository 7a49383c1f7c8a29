"""Two streams side by side: the classes that PyFlink has, and Penstock does not run yet."""

from __future__ import annotations

from typing import Any

from penstock.datastream._not_implemented import not_implemented

_TWO_INPUTS = "operators with two inputs are not there yet"
_BROADCAST = "broadcast state is not there yet"


class ConnectedStreams:
    """Two streams that functions process together."""

    __init__: Any = not_implemented(_TWO_INPUTS)
    key_by = not_implemented(_TWO_INPUTS)
    map = not_implemented(_TWO_INPUTS)
    flat_map = not_implemented(_TWO_INPUTS)
    process = not_implemented(_TWO_INPUTS)


class BroadcastStream:
    """A stream that every subtask of an operator gets, with the state that it fills."""

    __init__: Any = not_implemented(_BROADCAST)


class BroadcastConnectedStream:
    """A stream beside a broadcast stream."""

    __init__: Any = not_implemented(_BROADCAST)
    process = not_implemented(_BROADCAST)
