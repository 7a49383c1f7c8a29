"""The physical plan: nodes with changelog modes and upsert keys, and what they are in the JobGraph."""
