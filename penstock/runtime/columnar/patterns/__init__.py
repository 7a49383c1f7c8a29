"""MATCH_RECOGNIZE: the values that its expressions read from a match, and its translation to a CEP pattern."""
