"""Sources and sinks as tasks run them: plain Python, quick to import, pyarrow only where a file needs it."""
