"""Files with tokens, which only their owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from penstock.errors import ConfigurationError

TOKEN_VARIABLE = "PENSTOCK_TOKEN"  # noqa: S105 - the name of a variable


def create_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def read_or_create(path: str) -> str:
    """Return the token in a file; create a file that only its owner can read if it does not exist."""
    file = Path(path)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(file)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    token = create_token()
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(f"{token}\n")
    return token


def _read(file: Path) -> str:
    try:
        mode = file.stat().st_mode
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise _unusable(str(file), getattr(error, "strerror", None) or str(error)) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(
            f"token file '{file}' is readable by other users",
            detail=f"its mode is {stat.S_IMODE(mode):o}",
            hint=f"chmod 600 {file}, and change the token if another user may have read it",
        )
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise _unusable(str(file), "a token must have at least 16 ASCII characters and no spaces")
    return token


def _unusable(path: str, detail: str) -> ConfigurationError:
    return ConfigurationError(f"cannot read a token from '{path}'", detail=detail)
