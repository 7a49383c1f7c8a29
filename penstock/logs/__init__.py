"""Log lines that know their job, vertex and subtask: how they are made, sent, kept and shown."""
