"""What travels between subtasks: buffers, edges, routers, messages."""
