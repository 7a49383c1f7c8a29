"""What the joins of tables share: the two sides, their pairs, and what is emitted of them."""
