"""Window operators, their panes and contexts, and aggregation in two phases."""
