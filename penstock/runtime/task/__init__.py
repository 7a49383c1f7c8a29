"""Slots and their subtasks: chains of operators, fed by channels."""
