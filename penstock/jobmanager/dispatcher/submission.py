"""A job submission: the program by value, its options and its files."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.common.job_id import JobID
from penstock.errors import ArgumentError

# Placeholder in option values for the directory with the files of a submission
FILES = "penstock-file:"
_FIELDS = ("job_id", "name", "program", "configuration", "files", "submitted_ms")


@dataclass(frozen=True, slots=True)
class Submission:
    """A submitted job, as it is sent to a JobManager and kept in a job store.

    `program` is the result of `pack_program`: bytes that only a JobManager unpickles, for a client with the write role.
    `configuration` has all options as strings; `penstock-file:NAME` in a value refers to one of `files`, which are contents by name.
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
            raise ArgumentError("the submission has no job name")
        for name in self.files:
            if name.startswith("/") or not name or {"..", ".", ""} & set(name.split("/")):
                raise ArgumentError(
                    f"invalid file name '{name}' in a submission",
                    hint="names must be relative and must not contain '..'",
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
        """Parse the result of `to_json`; reject anything else. Nothing is unpickled."""
        unknown = sorted(set(values) - set(_FIELDS))
        if unknown:
            raise _malformed(f"unknown field '{unknown[0]}'")
        configuration, files = values.get("configuration", {}), values.get("files", {})
        for what, mapping in (("configuration", configuration), ("files", files)):
            if not isinstance(mapping, Mapping) or not all(
                isinstance(each, str) for pair in mapping.items() for each in pair
            ):
                raise _malformed(f"'{what}' must be an object with string values")
        submitted = values.get("submitted_ms", 0)
        if not isinstance(submitted, int) or isinstance(submitted, bool):
            raise _malformed("'submitted_ms' must be an integer")
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
        raise _malformed(f"'{name}' must be a string")
    return value


def _to_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _to_bytes(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _malformed(f"'{name}' is not valid base64") from error


def _malformed(detail: str) -> ArgumentError:
    return ArgumentError(
        "invalid submission",
        detail=detail,
        hint="use 'penstock run --session' to submit jobs",
    )
