"""The state that a job starts from: where it is, whether it fits, and which subtask restores what."""
