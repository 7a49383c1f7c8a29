"""Signatures of pickled data: only holders of the key can make a job run code.

With a key, the driver signs each manifest, the metadata of each savepoint and each journal record with HMAC-SHA256. A manifest
has the SHA-256 of its state files, so they are covered; tasks compute and check the digests and need no key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import options
from penstock.errors import ConfigurationError, RestoreRefusedError
from penstock.options.configuration import Configuration

KEY_FILE_VARIABLE = "PENSTOCK_SIGNING_KEY_FILE"
MIN_KEY_BYTES = 16


class SignatureError(RestoreRefusedError):
    """A file is not signed, was signed with another key, or was altered."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs data with a key and verifies signatures."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < MIN_KEY_BYTES:
            raise ConfigurationError(
                f"the signing key for checkpoints is too short: {len(self.key)} bytes",
                hint=f"use at least {MIN_KEY_BYTES} bytes, for example from `openssl rand -hex 32`",
            )

    def sign(self, kind: str, data: bytes) -> str:
        """Return the signature of bytes; signatures are specific to the kind of data."""
        return hmac.new(self.key, kind.encode() + b"\0" + data, hashlib.sha256).hexdigest()

    def check(self, kind: str, data: bytes, signature: str | None, path: str) -> None:
        """Raise SignatureError unless bytes were signed with this key."""
        if not signature:
            raise SignatureError(
                f"'{path}' is not signed",
                detail="penstock.signing.key or penstock.signing.key-file is set, so unsigned files are not read",
                hint="if you trust everyone who can write there, rewrite it with the key as a savepoint: "
                "state.edit(state.read(path, signed=False)).write(directory)",
            )
        if not hmac.compare_digest(self.sign(kind, data), signature):
            raise SignatureError(
                f"invalid signature of '{path}'",
                detail="it was written with another key, or altered since then",
                hint="use the key that it was written with; if that is this one, do not use the file: it was altered",
            )

    @staticmethod
    def from_configuration(configuration: Configuration) -> Signer | None:
        """Return a signer with the configured key, or None if there is none."""
        key = configuration.get(options.SIGNING_KEY)
        path = configuration.get(options.SIGNING_KEY_FILE)
        if key is not None and path is not None:
            raise ConfigurationError(
                "both penstock.signing.key and penstock.signing.key-file are set",
                hint="set only one of them",
            )
        if key is not None:
            return Signer(key.encode())
        return Signer.from_environment() if path is None else Signer.of_file(path)

    @staticmethod
    def from_environment() -> Signer | None:
        """Return a signer with the key in the file that PENSTOCK_SIGNING_KEY_FILE names, or None."""
        path = os.environ.get(KEY_FILE_VARIABLE)
        return Signer.of_file(path) if path else None

    @staticmethod
    def of_file(path: str) -> Signer:
        """Return a signer with the key in a file; surrounding white space is stripped."""
        try:
            return Signer(Path(path).read_bytes().strip())
        except OSError as error:
            raise ConfigurationError(
                f"could not read the signing key from '{path}'", detail=str(error)
            ) from error


def check_named_files(handles: Iterable[Any], path: str) -> None:
    """Raise SignatureError unless a signed manifest has the SHA-256 of every state file that it names."""
    for handle in handles:
        own = [] if handle.name is None else [(handle.name, handle.sha256)]
        for name, digest in [*own, *((file.name, file.sha256) for file in handle.files)]:
            if digest is None:
                raise SignatureError(
                    f"state file '{name}' is not signed",
                    detail=f"the signed manifest '{path}' names it without its SHA-256",
                    hint="take a savepoint with the key, and start from that",
                )


def digest(data: Any, *, wanted: bool) -> str | None:
    """Return the SHA-256 of bytes, or None if not wanted."""
    return hashlib.sha256(data).hexdigest() if wanted else None
