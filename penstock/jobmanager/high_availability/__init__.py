"""Several JobManagers, one of which leads: who it is, what it may do, and who comes after it."""
