"""The files of the page, as they are sent."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent / "static"
MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INLINE = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its content, its media type, and a tag that changes with the content."""

    content: bytes
    media_type: str
    tag: str


@functools.cache
def names() -> frozenset[str]:
    """Return the paths of all files that are given out; what is not among them does not exist for clients."""
    return frozenset(
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.suffix in MEDIA_TYPES
    )


@functools.cache
def _read(name: str) -> Asset:
    path = ROOT / name
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return Asset(content, MEDIA_TYPES[path.suffix], tag)


def find(name: str) -> Asset | None:
    """Return a file of the page, None if there is no such file."""
    return _read(name) if name in names() else None


@functools.cache
def content_security_policy() -> str:
    """Return what the page may load and do: only what comes from where it came from itself.

    The table of module names must stand in the page itself, so its hash is let through. Preact and uPlot set styles from
    script, which this rule does not treat as inline style; the few `style` attributes of the markup are.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
        for text in _INLINE.findall(_read("index.html").content)
    )
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
