"""Several sources, one after the other."""
