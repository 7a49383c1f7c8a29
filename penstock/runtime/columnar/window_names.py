"""Names of the internal columns of windows."""

from __future__ import annotations

from typing import Final

TIME: Final = "$time"  # the time of a row, in local milliseconds
START: Final = "$start"  # the start of a window
END: Final = "$end"  # the end of a window
SLICE: Final = "$slice"  # the end of a slice
