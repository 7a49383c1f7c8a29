"""The HTTP server of a process: its endpoint, connections, limits, and the application that answers requests."""
