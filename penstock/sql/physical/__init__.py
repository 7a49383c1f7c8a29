"""The physical plan: nodes with changelog modes and upsert keys, and their translation to the JobGraph."""
