"""Penstock in notebooks: magics for SQL, live tables, and how objects are shown. `%load_ext penstock` loads it."""
