"""Flink's own web page, out of its jar, on our REST API: what it shows of a job that runs and of one that has failed."""

from __future__ import annotations

import re

import pytest

from penstock.rest.routing.routes import Services
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.rest_server import RestServer
from penstock.testing import MiniCluster
from tests.builders import page_jobs
from tests.builders.chromium import chromium, needs_chromium
from tests.builders.flink_home import flink_home

pytestmark = needs_chromium

TOKEN = "the token of this test"
TIMEOUT_S = 60


@pytest.fixture
def jobs(tmp_path):
    options = {"execution.checkpointing.dir": tmp_path / "checkpoints"}
    with MiniCluster("pipelined"):
        failed = page_jobs.failing(options)
        running = page_jobs.fraud_detection(options)
    yield running, failed
    if not running.get_job_status().result().is_terminal_state():
        running.cancel()
    running._controller._ended.result(TIMEOUT_S)


@pytest.fixture
def address(jobs):
    home, services = flink_home(), Services()
    for job in jobs:
        services.jobs.publish(job._controller)
    server = RestServer(
        services, TOKEN, limits=RequestLimits(processor_share=1.0), routes=home.page_routes()
    )
    server.start()
    yield server.client_address
    server.close()


@pytest.fixture
def page(address):
    """A window of a browser that sends the token, and what went wrong in it."""
    with chromium() as browser:
        context = browser.new_context(
            viewport={"width": 1600, "height": 1100},
            extra_http_headers={"Authorization": f"Bearer {TOKEN}"},
        )
        page = context.new_page()
        page.set_default_timeout(90_000)
        page.troubles = []
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on(
            "response",
            lambda response: (
                response.status >= 400 and page.troubles.append(f"{response.status} {response.url}")
            ),
        )
        yield page
        context.close()


def test_flinks_page_shows_jobs_graph_back_pressure_checkpoints_and_cancels(page, address, jobs):
    from playwright.sync_api import expect

    running, failed = jobs
    failed._controller._ended.result(TIMEOUT_S)
    body = page.locator("body")
    page.goto(f"http://{address}/")
    expect(body).to_contain_text("fraud detection")
    expect(body).to_contain_text("currency conversion")

    # The graph, with figures that subtasks reported
    expect(body).to_contain_text("Available Task Slots")
    page.goto(f"http://{address}/#/job/running")
    expect(body).not_to_contain_text("Available Task Slots")  # the overview lists applications
    page.get_by_text("fraud detection").first.click()
    graph = page.locator("svg").filter(has_text="fraud detector")
    expect(graph).to_contain_text("Source: card payments")
    expect(graph).to_contain_text(re.compile(r"Busy \(max\): \d+%"))
    expect(graph).to_contain_text(re.compile(r"Low Watermark: \d{13}"))
    expect(graph).to_contain_text("HASH")

    # Back-pressure of a vertex
    page.locator("flink-job-overview-list a").filter(has_text="fraud detector").first.click()
    page.get_by_role("tab", name="BackPressure").click()
    expect(body).to_contain_text("Back Pressure Status:")
    expect(page.locator("tr").filter(has_text="[attempt-1]")).to_have_count(2)

    # Checkpoints
    page.goto(f"http://{address}/#/job/running/{running.get_job_id()}/checkpoints")
    expect(body).to_contain_text(re.compile(r"Completed: [1-9]"))
    page.get_by_text("History", exact=True).click()
    expect(page.locator("tr:visible").filter(has_text="COMPLETED").first).to_be_visible()

    # What has failed, where tasks run, what they log
    page.goto(f"http://{address}/#/job/completed/{failed.get_job_id()}/exceptions")
    expect(body).to_contain_text("no exchange rate for payment 200")
    page.goto(f"http://{address}/#/task-manager/local/logs")
    expect(body).to_contain_text(str(failed.get_job_id()))

    page.goto(f"http://{address}/#/job/running/{running.get_job_id()}/overview")
    page.get_by_text("Cancel Job").click()
    page.get_by_role("button", name=re.compile("Yes|OK")).click()
    running._controller._ended.result(TIMEOUT_S)
    assert running.get_job_status().result().name == "CANCELED"
    assert page.troubles == []
