"""Change data capture against a real server."""
