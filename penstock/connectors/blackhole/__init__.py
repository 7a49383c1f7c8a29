"""Tables that discard their rows."""
