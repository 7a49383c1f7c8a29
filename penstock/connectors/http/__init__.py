"""HTTP: a client that tries again, and a sink."""
