"""A slot and its subtasks: chains of operators, fed by channels."""
