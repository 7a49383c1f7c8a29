"""How each kind of logical node is run: one module per subject."""
