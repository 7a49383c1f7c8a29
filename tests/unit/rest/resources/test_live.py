"""The stream of news: what it sends, when, and that looking has a limit."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote

import pytest

from penstock.common.job_status import JobStatus
from penstock.rest.resources.live import MOST_PATHS, MOST_STREAMS, JobsAtOneMoment, PollingBudget
from tests.builders.rest_fakes import TOKEN
from tests.builders.waiting import wait_until

OVERVIEW = "/jobs/overview"


class Stream:
    """Reads events as they come."""

    def __init__(self, server, paths, **headers):
        host, port = server.server_address[:2]
        self.connection = http.client.HTTPConnection(host, port, timeout=60)
        query = quote(paths if isinstance(paths, str) else json.dumps(paths))
        self.connection.request("GET", f"/v1/penstock/live?paths={query}", headers=headers)
        self.response = self.connection.getresponse()

    def event(self):
        while line := self.response.readline():
            if line.startswith(b"data:"):
                return json.loads(line[5:])
        return None

    def close(self):
        self.connection.close()


@pytest.fixture
def watch(start_server):
    server = start_server()
    streams = []

    def open_(paths, on=server, **headers):
        streams.append(Stream(on, paths, **headers))
        return streams[-1]

    yield open_
    for stream in streams:
        stream.close()


def test_a_watched_resource_comes_at_once_and_again_when_it_has_changed(watch, controller):
    stream = watch([OVERVIEW])
    assert stream.response.status == 200
    assert stream.response.headers["Content-Type"].startswith("text/event-stream")
    first = stream.event()
    assert (first["path"], first["status"]) == (OVERVIEW, 200)
    assert first["content"]["jobs"][0]["state"] == "RUNNING"
    controller.status = JobStatus.FAILING
    assert stream.event()["content"]["jobs"][0]["state"] == "FAILING"


def test_what_has_not_changed_is_not_sent_again(watch, controller):
    stream = watch(["/jobs", OVERVIEW])  # in this order they come
    stream.event(), stream.event()
    controller.name = "renamed"  # which only the overview shows
    assert stream.event()["path"] == OVERVIEW
    controller.status = JobStatus.FAILING
    assert {stream.event()["path"], stream.event()["path"]} == {OVERVIEW, "/jobs"}


def test_a_path_that_is_not_there_does_not_keep_the_others_back(watch, controller):
    stream = watch(["/nothing", "/jobs/unknown", OVERVIEW])
    events = {(each := stream.event())["path"]: each for _ in range(3)}
    assert events["/nothing"]["status"] == events["/jobs/unknown"]["status"] == 404
    assert events["/nothing"]["content"]["errors"]
    assert events[OVERVIEW]["status"] == 200


@pytest.mark.parametrize("path", ["/", "/web/app/main.js", "/penstock/live", "http://[evil"])
def test_only_json_that_readers_may_have_is_watched(watch, controller, path):
    assert watch([path]).event()["status"] == 400


@pytest.mark.parametrize(
    "paths", ["", "{}", "[]", "[1]", "x", json.dumps(["/jobs"] * (MOST_PATHS + 1))]
)
def test_paths_must_be_a_list_of_a_few_paths(watch, paths):
    stream = watch(paths)
    assert stream.response.status == 400
    assert "paths" in stream.response.read().decode()


def test_elsewhere_the_stream_needs_the_token(start_server, watch, controller):
    server = start_server(bind_address="0.0.0.0")
    assert watch([OVERVIEW], server).response.status == 401
    assert watch([OVERVIEW], server, Authorization=f"Bearer {TOKEN}").response.status == 200


def test_the_stream_ends_when_another_process_leads(watch, services, controller):
    stream = watch([OVERVIEW])
    assert stream.event()
    services.elsewhere = lambda: "other:8081"
    assert stream.event() is None


def test_a_page_that_is_closed_makes_room_for_another(start_server, controller):
    server = start_server()
    streams = [Stream(server, [OVERVIEW]) for _ in range(MOST_STREAMS)]
    assert all(stream.response.status == 200 for stream in streams)
    refused = Stream(server, [OVERVIEW])
    assert refused.response.status == 429
    assert refused.response.headers["Retry-After"]
    streams[0].close()
    streams[0].response.close()

    def is_let_in():
        streams.append(Stream(server, [OVERVIEW]))
        return streams[-1].response.status == 200

    wait_until(is_let_in)
    for stream in streams[1:]:
        stream.close()
        stream.response.close()


def test_streams_that_cost_much_look_less_often():
    pace = PollingBudget(share=0.05, interval_s=1.0)
    assert pace.begin(1)
    assert pace.begin(2)
    pace.note(1, 0.01)
    assert pace.interval_s() == 1.0
    pace.note(2, 0.2)
    assert pace.interval_s() == pytest.approx(4.2)
    pace.end(2)
    assert pace.interval_s() == 1.0


def test_what_several_resources_ask_for_is_described_once(services, controller):
    asked = []
    view = controller.view
    controller.view = lambda: asked.append(1) or view()
    look = JobsAtOneMoment(services.jobs)
    for _ in range(3):
        look.view(str(controller.job_id))
        look.views()
    assert len(asked) == 2
    assert look.running(str(controller.job_id)) is controller
