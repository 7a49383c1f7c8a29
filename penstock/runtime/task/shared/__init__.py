"""Subtasks in both execution modes: chains of operators between input gates and result writers, their state, metrics and failures."""
