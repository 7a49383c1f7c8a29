"""How records are written as bytes: text, CSV, JSON, Parquet, ORC."""
