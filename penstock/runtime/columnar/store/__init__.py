"""Row stores of operators: columns in memory, indexed by key, and their persistence in keyed state."""
