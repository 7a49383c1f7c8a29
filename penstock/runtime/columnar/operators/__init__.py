"""The operators that work on ColumnBatches; each is found by the address in its spec."""
