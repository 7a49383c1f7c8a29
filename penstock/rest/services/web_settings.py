"""Settings of the web page: permitted actions and refresh interval."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import options
from penstock.options.configuration import Configuration


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Whether the page may upload programs, cancel and rescale jobs; and its refresh interval."""

    submit: bool = True
    cancel: bool = True
    rescale: bool = True
    refresh_ms: int = 3000

    @staticmethod
    def from_configuration(configuration: Configuration) -> WebSettings:
        """Read the options."""
        return WebSettings(
            submit=configuration.get(options.WEB_SUBMIT),
            cancel=configuration.get(options.WEB_CANCEL),
            rescale=configuration.get(options.WEB_RESCALE),
            refresh_ms=configuration.get(options.WEB_REFRESH_INTERVAL).to_millis(),
        )
