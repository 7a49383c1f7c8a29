"""Draws job graphs as text or SVG, and pattern automata as DOT or SVG."""
