"""What a web page may do, and how often it asks."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common import options
from penstock.common.configuration import Configuration


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Whether a page takes programs, cancels and rescales jobs; and after what time it asks for news."""

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
