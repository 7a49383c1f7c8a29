"""Redis: a sink, and common parts with lookups."""
