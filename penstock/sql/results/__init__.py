"""Results of statements: their columns, their rows, and rows as text."""
