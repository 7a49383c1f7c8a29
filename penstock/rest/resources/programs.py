"""`/jars`: uploaded programs. A program is a Python file here; the paths are Flink's, so that its web page works."""

from __future__ import annotations

import shlex
from http import HTTPStatus
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from penstock.options import WEB_SUBMIT
from penstock.options.option_checks import check_setting
from penstock.rest.flink_json.jobs import Plan
from penstock.rest.flink_json.parts import Empty, Id, Name, Text
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Role, Route, Services
from penstock.rest.services.programs import (
    MAX_PROGRAM_BYTES,
    UploadedProgram,
    file_of_form,
    plan_of,
    run_program,
)


class RunRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to run a program. Flink's page sends `entryClass`; a Python program has none."""

    entry_class: str | None = field(name="entryClass", default=None)
    arguments: Text | None = field(name="programArgs", default=None)
    #: Without it, `programArgs` is split as a shell does.
    argument_list: list[str] | None = field(name="programArgsList", default=None)
    parallelism: Annotated[int, Meta(ge=1, description="a positive integer")] | None = None
    savepoint_path: Name | None = field(name="savepointPath", default=None)
    allow_non_restored_state: bool | None = field(name="allowNonRestoredState", default=None)
    claim_mode: Literal["CLAIM", "NO_CLAIM"] | None = field(name="claimMode", default=None)
    configuration: dict[str, str] | None = field(name="flinkConfiguration", default=None)


class ProgramEntry(Struct, frozen=True):
    """The entry point of a program."""

    name: str
    description: str | None = None


class ProgramInfo(Struct, frozen=True):
    """An uploaded program."""

    id: str
    name: str
    uploaded: int
    entry: list[ProgramEntry]

    @classmethod
    def of(cls, program: UploadedProgram) -> ProgramInfo:
        """Return a program."""
        entry = ProgramEntry(program.name.removesuffix(".py"))
        return cls(program.id, program.name, program.uploaded_ms, [entry])


class ProgramList(Struct, frozen=True):
    """`/jars`."""

    address: str
    files: list[ProgramInfo]


class ProgramUpload(Struct, frozen=True):
    """A program that was uploaded."""

    filename: str
    status: str = "success"


class SubmittedJob(Struct, frozen=True):
    """The job of a program that was started."""

    jobid: Id


class ProgramPlan(Struct, frozen=True):
    """The plan of a program."""

    plan: Plan


def _list(services: Services, request: Request) -> Response:
    address = f"http://{request.headers.get('host', 'localhost')}"
    takes = services.session is not None and services.web.submit
    programs = services.programs.all() if takes else []
    return Response(ProgramList(address, [ProgramInfo.of(each) for each in programs]))


def _require_session(services: Services) -> None:
    if not services.web.submit:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            "this session does not accept uploaded programs",
            f"hint: {WEB_SUBMIT.key} is false; submit the program with 'penstock run --session'",
        )
    if services.session is None:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            "this process runs a single program and is not a session",
            "hint: start a session with 'penstock session start'",
        )


def _upload(services: Services, request: Request) -> Response:
    _require_session(services)
    name, content = file_of_form(request.headers.get("content-type", ""), request.raw)
    program = services.programs.add(name, content)
    return Response(ProgramUpload(str(program.path)))


def _remove(services: Services, request: Request) -> Response:
    services.programs.remove(request.parameters["jarid"])
    return Response(Empty())


def _run(services: Services, request: Request) -> Response:
    _require_session(services)
    program, options, arguments = _given(services, request)
    return Response(SubmittedJob(run_program(program, options, arguments)))


def _plan(services: Services, request: Request) -> Response:
    _require_session(services)
    program, options, arguments = _given(services, request)
    return Response(ProgramPlan(plan_of(program, options, arguments)))


def _given(services: Services, request: Request) -> tuple[UploadedProgram, list[str], list[str]]:
    """Return the program to run, with options of the command line and arguments of the program."""
    wanted = request.read(RunRequest)
    program = services.programs.find(request.parameters["jarid"])
    options: list[str] = []
    if wanted.parallelism is not None:
        options += ["-p", str(wanted.parallelism)]
    if wanted.savepoint_path is not None:
        options.append(f"--from={wanted.savepoint_path}")
    if wanted.allow_non_restored_state:
        options.append("-n")
    if wanted.claim_mode is not None:
        options.append(f"--claim-mode={wanted.claim_mode}")
    for key, value in (wanted.configuration or {}).items():
        check_setting(key, value)
        options += ["-D", f"{key}={value}"]
    return program, options, _arguments(wanted)


def _arguments(wanted: RunRequest) -> list[str]:
    if wanted.argument_list is not None:
        return wanted.argument_list
    try:
        return shlex.split(wanted.arguments or "")
    except ValueError as error:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"field 'programArgs' must be arguments in shell syntax ({error})",
        ) from error


ROUTES = (
    Route(
        "GET",
        "/jars",
        _list,
        "the uploaded programs",
        response=ProgramList,
    ),
    Route(
        "POST",
        "/jars/upload",
        _upload,
        "upload a program to a session: a form with a Python file, as sent by `curl -F jarfile=@job.py`",
        takes_bytes=True,
        max_body_bytes=MAX_PROGRAM_BYTES,
        response=ProgramUpload,
    ),
    Route("DELETE", "/jars/:jarid", _remove, "delete a program", response=Empty),
    Route(
        "POST",
        "/jars/:jarid/run",
        _run,
        "run a program in its own process, which submits its job to the session",
        body=RunRequest,
        response=SubmittedJob,
    ),
    Route(
        "GET",
        "/jars/:jarid/plan",
        _plan,
        "the plan of a program",
        role=Role.WRITE,  # the program is executed to get its plan
        response=ProgramPlan,
    ),
    Route(
        "POST",
        "/jars/:jarid/plan",
        _plan,
        "the plan of a program, with arguments and options as for run",
        body=RunRequest,
        response=ProgramPlan,
    ),
)
