"""Configuration, by PyFlink's path."""

from __future__ import annotations

from penstock.options.configuration import Configuration

__all__ = ["Configuration"]
