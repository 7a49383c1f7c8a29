"""What can be asked of a running slot, and how it answers: stack samples, a thread dump, the end of its log."""
