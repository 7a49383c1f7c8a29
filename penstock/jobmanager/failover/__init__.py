"""What follows a failure: its cause, and the decision of the restart strategy."""
