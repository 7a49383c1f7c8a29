"""MATCH_RECOGNIZE: what its expressions read of the rows of a match, and how it becomes a pattern of the CEP engine."""
