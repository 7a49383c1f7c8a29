"""Points in time, amounts of time and clocks."""
