"""Signatures of what is unpickled: who cannot sign cannot let a job run code.

With a key, the driver signs each manifest, the metadata of each savepoint and each record of the journal, with HMAC-SHA256. A
manifest names its state files with their SHA-256, so they are signed with it; tasks compute and check that, and need no key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.errors import ConfigurationError, RestoreRefusedError

KEY_FILE_VARIABLE = "PENSTOCK_SIGNING_KEY_FILE"
MIN_KEY_BYTES = 16


class SignatureError(RestoreRefusedError):
    """A file is not signed, or not with this key, or not as it is now."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs with a key, and checks what was signed with it."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < MIN_KEY_BYTES:
            raise ConfigurationError(
                f"the key that signs checkpoints has {len(self.key)} bytes",
                hint=f"give {MIN_KEY_BYTES} at least, such as those of `openssl rand -hex 32`",
            )

    def sign(self, kind: str, data: bytes) -> str:
        """Return the signature of bytes; those of one kind are no signatures of another."""
        return hmac.new(self.key, kind.encode() + b"\0" + data, hashlib.sha256).hexdigest()

    def check(self, kind: str, data: bytes, signature: str | None, path: str) -> None:
        """Raise SignatureError unless bytes were signed with this key."""
        if not signature:
            raise SignatureError(
                f"'{path}' is not signed",
                detail="penstock.signing.key or penstock.signing.key-file is set, so what is not signed is not read",
                hint="if you trust who could write there, write it anew with the key, as a savepoint: "
                "state.edit(state.read(path, signed=False)).write(directory)",
            )
        if not hmac.compare_digest(self.sign(kind, data), signature):
            raise SignatureError(
                f"the signature of '{path}' is wrong",
                detail="it was written with another key, or altered since",
                hint="give the key that it was written with; if that is this one, do not use the file: somebody has altered it",
            )

    @staticmethod
    def from_configuration(configuration: Configuration) -> Signer | None:
        """Return what signs with the configured key, or None if there is none."""
        key = configuration.get(options.SIGNING_KEY)
        path = configuration.get(options.SIGNING_KEY_FILE)
        if key is not None and path is not None:
            raise ConfigurationError(
                "both penstock.signing.key and penstock.signing.key-file are set",
                hint="leave one of them out",
            )
        if key is not None:
            return Signer(key.encode())
        return Signer.from_environment() if path is None else Signer.of_file(path)

    @staticmethod
    def from_environment() -> Signer | None:
        """Return what signs with the key in the file that PENSTOCK_SIGNING_KEY_FILE names, or None."""
        path = os.environ.get(KEY_FILE_VARIABLE)
        return Signer.of_file(path) if path else None

    @staticmethod
    def of_file(path: str) -> Signer:
        """Return what signs with the key in a file; white space around it is no part of it."""
        try:
            return Signer(Path(path).read_bytes().strip())
        except OSError as error:
            raise ConfigurationError(
                f"the key that signs checkpoints cannot be read from '{path}'", detail=str(error)
            ) from error


def check_named_files(handles: Iterable[Any], path: str) -> None:
    """Raise SignatureError unless a signed manifest has the SHA-256 of every state file that it names."""
    for handle in handles:
        own = [] if handle.name is None else [(handle.name, handle.sha256)]
        for name, digest in [*own, *((file.name, file.sha256) for file in handle.files)]:
            if digest is None:
                raise SignatureError(
                    f"state file '{name}' is not signed",
                    detail=f"'{path}', which is, names it without its SHA-256",
                    hint="take a savepoint with the key, and start from that",
                )


def digest(data: Any, *, wanted: bool) -> str | None:
    """Return the SHA-256 of bytes, if it is wanted."""
    return hashlib.sha256(data).hexdigest() if wanted else None
