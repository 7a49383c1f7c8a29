"""Files as a source and as an exactly-once sink."""
