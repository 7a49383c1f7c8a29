"""HTTP: a client with retries, and a sink."""
