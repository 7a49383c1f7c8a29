"""What a client sends to have a job run: the program by value, its options, and the files that go along."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.common.job_id import JobID
from penstock.errors import ArgumentError

# In an option's value, what stands for the directory that the files of a submission are written to
FILES = "penstock-file:"
_FIELDS = ("job_id", "name", "program", "configuration", "files", "submitted_ms")


@dataclass(frozen=True, slots=True)
class Submission:
    """A job on its way to a JobManager, and as a job store keeps it.

    `program` is what `pack_program` makes of transformations and graph settings: bytes that only a JobManager unpickles, for whom
    the write role was shown. `configuration` has all options as text; a value in which `penstock-file:NAME` stands names one of
    `files`, which are content by name.
    """

    job_id: str
    name: str
    program: bytes
    configuration: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    submitted_ms: int = 0

    def __post_init__(self) -> None:
        JobID.from_hex_string(self.job_id)
        if not self.name.strip():
            raise ArgumentError("a submission must have the name of its job")
        for name in self.files:
            if name.startswith("/") or not name or {"..", ".", ""} & set(name.split("/")):
                raise ArgumentError(
                    f"'{name}' is no name for a file of a submission",
                    hint="names are relative and have no '..' in them",
                )

    def to_json(self) -> dict[str, Any]:
        """Return the submission as JSON values."""
        return {
            "job_id": self.job_id,
            "name": self.name,
            "program": _to_text(self.program),
            "configuration": dict(self.configuration),
            "files": {name: _to_text(content) for name, content in self.files.items()},
            "submitted_ms": self.submitted_ms,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Submission:
        """Return the submission that `to_json` wrote; refuse anything else. Nothing is unpickled."""
        unknown = sorted(set(values) - set(_FIELDS))
        if unknown:
            raise _malformed(f"it has a field '{unknown[0]}'")
        configuration, files = values.get("configuration", {}), values.get("files", {})
        for what, mapping in (("configuration", configuration), ("files", files)):
            if not isinstance(mapping, Mapping) or not all(
                isinstance(each, str) for pair in mapping.items() for each in pair
            ):
                raise _malformed(f"'{what}' must be an object with texts")
        submitted = values.get("submitted_ms", 0)
        if not isinstance(submitted, int) or isinstance(submitted, bool):
            raise _malformed("'submitted_ms' must be a whole number")
        return cls(
            job_id=str(JobID.from_hex_string(_text(values, "job_id"))),
            name=_text(values, "name"),
            program=_to_bytes(_text(values, "program"), "program"),
            configuration=dict(configuration),
            files={name: _to_bytes(content, name) for name, content in files.items()},
            submitted_ms=submitted,
        )


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not value:
        raise _malformed(f"'{name}' must be a text")
    return value


def _to_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _to_bytes(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _malformed(f"'{name}' is not in base64") from error


def _malformed(detail: str) -> ArgumentError:
    return ArgumentError(
        "the submission cannot be read",
        detail=detail,
        hint="submissions are made by 'penstock run --session'",
    )
