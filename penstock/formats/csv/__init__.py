"""CSV, as files and as messages."""
