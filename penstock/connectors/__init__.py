"""Sources and sinks: their interface, and one module or folder per system. Quick to import, pyarrow only where a file needs it."""
