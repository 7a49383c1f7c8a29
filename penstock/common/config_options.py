"""ConfigOption, by PyFlink's path."""

from __future__ import annotations

from penstock.options.config_options import ConfigOption, ConfigOptions

__all__ = ["ConfigOption", "ConfigOptions"]
