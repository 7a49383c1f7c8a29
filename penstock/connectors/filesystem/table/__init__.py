"""`filesystem`: tables whose rows are in files."""
