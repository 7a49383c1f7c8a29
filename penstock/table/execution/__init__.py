"""What statements do, one kind per module."""
