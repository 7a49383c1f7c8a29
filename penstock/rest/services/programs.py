"""Python programs that clients have uploaded to a session: the counterpart of Flink's jars."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET

from penstock.processes import temporary
from penstock.rest import processes
from penstock.rest.flink_json.jobs import Plan, PlanInput, PlanNode
from penstock.rest.messages import HttpError

MAX_PROGRAM_BYTES: Final = 64 << 20
_MOST: Final = 1_000
_TIMEOUT_S: Final = 120.0  # until a program must have submitted its job
_NAME: Final = re.compile(r"[\w.-]{1,100}\.py", re.ASCII)
_JOB_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")


@dataclass(frozen=True, slots=True)
class UploadedProgram:
    """One Python file."""

    id: str
    name: str
    path: Path
    uploaded_ms: int


class Programs:
    """The uploaded programs. They are deleted when the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programs: dict[str, UploadedProgram] = {}
        self._directory: Path | None = None

    def add(self, name: str, content: bytes) -> UploadedProgram:
        """Store a program."""
        if not _NAME.fullmatch(name):
            raise HttpError(
                HTTPStatus.BAD_REQUEST,
                f"'{name[:100]}' is not a Python file",
                "hint: upload a program whose name ends with .py; its other files are given with --py-files",
            )
        try:
            compile(content, name, "exec")
        except (SyntaxError, ValueError) as error:
            raise HttpError(
                HTTPStatus.BAD_REQUEST, f"{name} cannot be compiled: {error}"
            ) from error
        with self._lock:
            if len(self._programs) >= _MOST:
                raise HttpError(
                    HTTPStatus.CONFLICT,
                    f"the limit of {_MOST} programs is reached",
                    "hint: delete one with DELETE /jars/<id>",
                )
            if self._directory is None:
                self._directory = Path(temporary.create_directory("programs"))
                atexit.register(shutil.rmtree, self._directory, ignore_errors=True)
            identity = f"{uuid.uuid4()}_{name}"
            path = self._directory / identity
            path.write_bytes(content)
            program = UploadedProgram(identity, name, path, int(time.time() * 1000))
            self._programs[identity] = program
            return program

    def all(self) -> list[UploadedProgram]:
        """Return all programs, the newest first."""
        with self._lock:
            return list(self._programs.values())[::-1]

    def find(self, identity: str) -> UploadedProgram:
        """Return a program by its id."""
        with self._lock:
            program = self._programs.get(identity)
        if program is None:
            raise HttpError(
                HTTPStatus.NOT_FOUND,
                f"unknown program {identity}",
                "hint: GET /jars lists programs, POST /jars/upload adds one",
            )
        return program

    def remove(self, identity: str) -> None:
        """Delete a program."""
        program = self.find(identity)
        with self._lock:
            self._programs.pop(identity, None)
        program.path.unlink(missing_ok=True)


def file_of_form(content_type: str, body: bytes) -> tuple[str, bytes]:
    """Return the name and the content of the file in a form (multipart/form-data)."""
    if not content_type.lower().startswith("multipart/form-data"):
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "a program must be sent as a form with a file",
            "hint: curl -F 'jarfile=@job.py' .../jars/upload",
        )
    try:
        files = _files_in(content_type, body)
    except Exception as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from error
    if len(files) != 1:
        raise HttpError(
            HTTPStatus.BAD_REQUEST, f"the form has {len(files)} files, expected one program"
        )
    return files[0]


def _files_in(content_type: str, body: bytes) -> list[tuple[str, bytes]]:
    import email.parser
    import email.policy

    head = b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n"
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    found = []
    for part in form.iter_parts():
        name, content = part.get_filename(), part.get_payload(decode=True)
        if name and isinstance(content, bytes):
            found.append((Path(name.replace("\\", "/")).name, content))
    return found


def run_program(program: UploadedProgram, options: Sequence[str], arguments: Sequence[str]) -> str:
    """Run a program in its own process, which submits its job to this one; return the job id."""
    own = [each for each in processes.read_all() if each.pid == os.getpid()]
    if not own:
        raise HttpError(
            HTTPStatus.CONFLICT,
            "programs cannot reach this process: it has no file in ~/.penstock/processes",
        )
    command = ["run", f"--session={own[0].address}", "--detached", *options]
    output = _penstock([*command, str(program.path), *arguments], own[0].token)
    found = _JOB_ID.search(output)
    if found is None:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"{program.name} ended without submitting a job",
            output.strip()[-2000:] or "hint: call env.execute() in the program",
        )
    return found[0]


def plan_of(program: UploadedProgram, options: Sequence[str], arguments: Sequence[str]) -> Plan:
    """Return the plan of a program, which is run up to its first job."""
    output = _penstock(["plan", "--json", *options, str(program.path), *arguments], None)
    shown: dict[str, Any] = json.loads(output[output.index("{") :])
    return Plan("0" * 32, shown["name"], "STREAMING", [_node(each) for each in shown["nodes"]])


def _node(node: Mapping[str, Any]) -> PlanNode:
    return PlanNode(
        id=str(node["id"]),
        parallelism=node.get("parallelism", 1),
        description=node.get("contents") or node.get("type", ""),
        inputs=[
            PlanInput(number, str(each["id"]), each.get("ship_strategy", "FORWARD"))
            for number, each in enumerate(node.get("predecessors", ()))
        ]
        or UNSET,
    )


def _penstock(arguments: Sequence[str], token: str | None) -> str:
    environment = dict(os.environ)
    if token is not None:
        environment["PENSTOCK_TOKEN"] = token
    try:
        ran = subprocess.run(  # noqa: S603 - the client has the write role
            [sys.executable, "-m", "penstock", *arguments],
            capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise HttpError(
            HTTPStatus.GATEWAY_TIMEOUT,
            f"the program did not submit its job within {_TIMEOUT_S:.0f} s",
        ) from error
    if ran.returncode:
        raise HttpError(
            HTTPStatus.BAD_REQUEST, *(ran.stderr or ran.stdout).strip().split("\n")[-40:]
        )
    return ran.stdout
