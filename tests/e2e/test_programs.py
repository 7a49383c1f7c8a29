"""Programs that are uploaded to a session, as Flink's page and curl do it, and the logs of their jobs."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
import uuid

import pytest

from penstock.rest.client.rest_client import RestClient
from penstock.rest.client.session_client import sessions

TIMEOUT_S = 240.0
PROGRAM = b"""
import logging
import sys

from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource

def note(number):
    logging.getLogger("of.the.user").info("number %d", number)
    return number

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda i: i, rate_per_second=100)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(note).name("note").filter(lambda _: False).print()
env.execute(sys.argv[1])
"""


def penstock(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session whose tasks are threads, and a client of it."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    logs = f"env.log.dir={tmp_path / 'logs'}"
    penstock("session", "start", "--no-spark", "-D", logs, "-D", "taskmanager.numberOfTaskSlots=4")
    (record,) = sessions()
    client = RestClient(record.address, record.token)
    client.where, client.token_of_session = record.address, record.token
    yield client
    penstock("session", "stop")


def upload(session, name, content):
    """Send a file as a form, as browsers do."""
    border = uuid.uuid4().hex
    body = (
        f'--{border}\r\nContent-Disposition: form-data; name="jarfile"; filename="{name}"\r\n'
        "Content-Type: application/x-java-archive\r\n\r\n"
    ).encode() + content + f"\r\n--{border}--\r\n".encode()  # fmt: skip
    headers = {
        "Authorization": f"Bearer {session.token_of_session}",
        "Content-Type": f"multipart/form-data; boundary={border}",
    }
    connection = http.client.HTTPConnection(session.where, timeout=TIMEOUT_S)
    connection.request("POST", "/jars/upload", body, headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_a_program_is_uploaded_run_followed_and_deleted(session, tmp_path):
    assert session.get("/jars")["files"] == []
    status, answer = upload(session, "clicks.py", PROGRAM)
    assert (status, answer["status"]) == (200, "success")
    assert answer["filename"].endswith("_clicks.py")
    status, refused = upload(session, "../../etc/passwd", PROGRAM)
    assert (status, refused["errors"][0]) == (400, "'passwd' is not a Python file")
    status, refused = upload(session, "broken.py", b"def f(:")
    assert (status, refused["errors"][0][:28]) == (400, "broken.py cannot be compiled")

    (file,) = session.get("/jars")["files"]
    assert file["name"] == "clicks.py"
    jar = f"/jars/{file['id']}"
    plan = session.request("POST", f"{jar}/plan", {"programArgsList": ["planned"]})["plan"]
    assert plan["name"] == "planned"
    assert any("note" in node["description"] for node in plan["nodes"])

    body = {"programArgsList": ["my clicks"], "parallelism": 2}
    job_id = session.request("POST", f"{jar}/run", body)["jobid"]
    job = session.get(f"/jobs/{job_id}")
    assert job["name"] == "my clicks"
    assert {vertex["parallelism"] for vertex in job["vertices"]} == {2}

    until = time.monotonic() + TIMEOUT_S
    while "number 10" not in (shown := penstock("logs", "my clicks", "--vertex", "note")):
        assert time.monotonic() < until, shown
    line = next(each for each in shown.splitlines() if each.endswith("number 10"))
    assert f"[job {job_id}, vertex " in line
    assert "/2, attempt 0] - " in line
    written = (tmp_path / "logs" / "jobmanager.log").read_text()
    assert f"[job {job_id}, vertex " in written

    session.request("DELETE", jar)
    assert session.get("/jars")["files"] == []
    assert not os.path.exists(answer["filename"])
