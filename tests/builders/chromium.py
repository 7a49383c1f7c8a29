"""A real browser for tests: Debian's Chromium."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MISSING = None if CHROMIUM else "chromium is not installed (package chromium)"

# On machines of tests it may be missing; where all tests must run it may not.
needs_chromium = pytest.mark.skipif(
    MISSING is not None and "CI" not in os.environ, reason=str(MISSING)
)


@contextmanager
def chromium():
    """A browser that was started for a test."""
    from playwright.sync_api import expect, sync_playwright

    assert CHROMIUM is not None, MISSING
    expect.set_options(timeout=90_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Visit:
    """One user at one browser window, and everything that went wrong there."""

    def __init__(self, browser, address, *, width=1280, height=900, theme="light"):
        self.address = address
        self.troubles = []
        self.hosts = set()
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, timezone_id="UTC"
        )
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page.on("console", self._heard)

    def _heard(self, message):
        # A resource that is not there is reported to the user, and is not a fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.troubles.append(message.text)

    def go(self, path="/", token=None):
        """Open a place of the page, with the token in the address as `make demo` prints it."""
        start = f"token={token}&" if token else ""
        self.page.goto(f"http://{self.address}/#{start}{path}")
        return self.page

    def close(self):
        self.context.close()
        assert not self.troubles, self.troubles
        assert self.hosts <= {self.address}, f"the page asks {self.hosts}"


def axe_findings(page):
    """What axe finds that is serious or worse."""
    import axe_playwright_python

    script = Path(axe_playwright_python.__file__).parent / "axe.min.js"
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(script.read_text() + "; undefined")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], elementRef: false})")
    found = found["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['nodes'][0]['html'][:200]} "
        f"{each['nodes'][0].get('failureSummary', '')[:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
