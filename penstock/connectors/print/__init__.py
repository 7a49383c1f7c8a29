"""Printed tables."""
