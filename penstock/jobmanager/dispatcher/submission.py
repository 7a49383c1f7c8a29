"""A job submission: the program by value, its options and its files."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from penstock.common.job_id import JobID
from penstock.errors import ArgumentError
from penstock.errors.json_values import read_json

# Placeholder in option values for the directory with the files of a submission
FILES = "penstock-file:"


class Submission(Struct, frozen=True, forbid_unknown_fields=True):
    """A submitted job, as it is sent to a JobManager and kept in a job store.

    `program` is the result of `pack_program`: bytes that only a JobManager unpickles, for a client with the write role.
    `configuration` has all options as strings; `penstock-file:NAME` in a value refers to one of `files`, which are contents by name.
    """

    job_id: str
    name: Annotated[str, Meta(min_length=1, description="a string that is not empty")]
    program: bytes
    configuration: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    submitted_ms: int = 0

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "job_id", str(JobID.from_hex_string(self.job_id)))
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
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values

    @classmethod
    def from_json(cls, values: object) -> Submission:
        """Parse the result of `to_json`; reject anything else. Nothing is unpickled."""
        return read_json(values, cls)
