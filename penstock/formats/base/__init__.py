"""Interfaces of formats, and conversions that they share."""
