"""Rows of tables that operators keep: columns in memory, found by key, and their way into the keyed state."""
