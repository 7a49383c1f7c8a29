"""Messages whose schema is in a schema registry."""
