"""State descriptors and their time-to-live: what users declare and state backends read."""
