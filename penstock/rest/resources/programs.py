"""`/jars`: uploaded programs. A program is a Python file here; the paths are Flink's, so that its web page works."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from penstock.options import WEB_SUBMIT
from penstock.options.option_checks import check_setting
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Role, Route, Services
from penstock.rest.routing.schemas import (
    ANY_OBJECT,
    FLAG,
    ID,
    INTEGER,
    TEXT,
    array,
    body,
    fields,
    mapping,
)
from penstock.rest.services.programs import (
    MAX_PROGRAM_BYTES,
    UploadedProgram,
    file_of_form,
    plan_of,
    run_program,
)

_RUN_FIELDS: Final = {
    "entryClass": TEXT,  # sent by Flink's page; a Python program has no entry class
    "programArgs": TEXT,
    "programArgsList": array(TEXT),
    "parallelism": {"type": "integer", "minimum": 1},
    "savepointPath": TEXT,
    "allowNonRestoredState": FLAG,
    "claimMode": {"type": "string", "enum": ["CLAIM", "NO_CLAIM"]},
    "flinkConfiguration": mapping(TEXT),
}


def _list(services: Services, request: Request) -> Response:
    address = f"http://{request.headers.get('host', 'localhost')}"
    takes = services.session is not None and services.web.submit
    programs = services.programs.all() if takes else []
    return Response({"address": address, "files": [each.to_json() for each in programs]})


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
    return Response({"filename": str(program.path), "status": "success"})


def _remove(services: Services, request: Request) -> Response:
    services.programs.remove(request.parameters["jarid"])
    return Response({})


def _run(services: Services, request: Request) -> Response:
    _require_session(services)
    program, options, arguments = _given(services, request)
    return Response({"jobid": run_program(program, options, arguments)})


def _plan(services: Services, request: Request) -> Response:
    _require_session(services)
    program, options, arguments = _given(services, request)
    return Response({"plan": plan_of(program, options, arguments)})


def _given(services: Services, request: Request) -> tuple[UploadedProgram, list[str], list[str]]:
    """Return the program to run, with options of the command line and arguments of the program."""
    request.refuse_unknown_fields(tuple(_RUN_FIELDS))
    program = services.programs.find(request.parameters["jarid"])
    values: Mapping[str, Any] = request.body
    options: list[str] = []
    parallelism = values.get("parallelism")
    if parallelism is not None:
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
            raise _wrong("parallelism", "a positive integer")
        options += ["-p", str(parallelism)]
    savepoint, claim = request.text("savepointPath"), request.text("claimMode")
    if savepoint is not None:
        options.append(f"--from={savepoint}")
    if request.flag("allowNonRestoredState"):
        options.append("-n")
    if claim is not None:
        if claim not in {"CLAIM", "NO_CLAIM"}:
            raise _wrong("claimMode", "CLAIM or NO_CLAIM")
        options.append(f"--claim-mode={claim}")
    for key, value in _texts(values, "flinkConfiguration").items():
        check_setting(key, value)
        options += ["-D", f"{key}={value}"]
    return program, options, _arguments(request)


def _arguments(request: Request) -> list[str]:
    listed = request.body.get("programArgsList")
    if listed is not None:
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise _wrong("programArgsList", "a list of strings")
        return listed
    try:
        return shlex.split(request.text("programArgs") or "")
    except ValueError as error:
        raise _wrong("programArgs", f"arguments in shell syntax ({error})") from error


def _texts(values: Mapping[str, Any], name: str) -> dict[str, str]:
    given = values.get(name) or {}
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise _wrong(name, "an object with string values")
    return given


def _wrong(name: str, wanted: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, f"field '{name}' must be {wanted}")


_PLAN = fields({"plan": ANY_OBJECT})

ROUTES = (
    Route(
        "GET",
        "/jars",
        _list,
        "the uploaded programs",
        response=fields(
            {"address": TEXT, "files": array(fields({"id": TEXT, "uploaded": INTEGER}))}
        ),
    ),
    Route(
        "POST",
        "/jars/upload",
        _upload,
        "upload a program to a session: a form with a Python file, as sent by `curl -F jarfile=@job.py`",
        takes_bytes=True,
        max_body_bytes=MAX_PROGRAM_BYTES,
        response=fields({"filename": TEXT, "status": TEXT}),
    ),
    Route("DELETE", "/jars/:jarid", _remove, "delete a program"),
    Route(
        "POST",
        "/jars/:jarid/run",
        _run,
        "run a program in its own process, which submits its job to the session",
        body=body(_RUN_FIELDS),
        response=fields({"jobid": ID}),
    ),
    Route(
        "GET",
        "/jars/:jarid/plan",
        _plan,
        "the plan of a program",
        role=Role.WRITE,  # the program is executed to get its plan
        response=_PLAN,
    ),
    Route(
        "POST",
        "/jars/:jarid/plan",
        _plan,
        "the plan of a program, with arguments and options as for run",
        body=body(_RUN_FIELDS),
        response=_PLAN,
    ),
)
