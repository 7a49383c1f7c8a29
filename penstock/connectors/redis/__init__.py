"""Redis: a sink, and what its lookups share with it."""
