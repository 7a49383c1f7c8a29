"""Raw messages: one value without any envelope."""
