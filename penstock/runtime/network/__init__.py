"""Data exchange between subtasks: buffers, edges, routers, channels, messages."""
