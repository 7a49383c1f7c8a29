"""Building blocks of joins: the two sides, pairs of rows, and the emitted changes."""
