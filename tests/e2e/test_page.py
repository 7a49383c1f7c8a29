"""The web page in a real browser, with real jobs: what it shows moves, and what is clicked happens.

With PENSTOCK_SCREENSHOTS=1 the pictures of the README are made again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.rest.routing.routes import Services
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.rest_server import RestServer
from penstock.rest.services.web_settings import WebSettings
from penstock.testing import MiniCluster
from tests.builders import page_jobs
from tests.builders.chromium import Visit, axe_findings, chromium, needs_chromium
from tests.builders.waiting import wait_until

pytestmark = needs_chromium

TOKEN = "the token of this test"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
TABS = (
    "graph", "timeline", "checkpoints", "exceptions", "metrics", "backpressure", "flame", "state",
    "configuration", "plan",
)  # fmt: skip
PHONE = {"width": 390, "height": 844}
TIMEOUT_S = 60
NOTHING = "\N{EN DASH}"
WANTED = "PENSTOCK_SCREENSHOTS" in os.environ  # then there is more to see in them


def expect(thing):
    from playwright.sync_api import expect

    return expect(thing)


@contextmanager
def serving(*clients, **options):
    """A server with the jobs of some clients."""
    services = Services()
    for client in clients:
        services.jobs.publish(client._controller)
    server = RestServer(services, TOKEN, limits=RequestLimits(processor_share=1.0), **options)
    server.start()
    try:
        yield server
    finally:
        server.close()


def ended(client):
    """Cancel a job and wait for its end."""
    if not client.get_job_status().result().is_terminal_state():
        client.cancel()
    client._controller._ended.result(TIMEOUT_S)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Where jobs keep their checkpoints and savepoints."""
    base = tmp_path_factory.mktemp("page")
    return {
        "execution.checkpointing.dir": str(base / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(base / "savepoints"),
    }


@pytest.fixture(scope="module")
def jobs(options):
    """A job that runs, and one that has failed."""
    with MiniCluster("pipelined"):
        failed = page_jobs.failing(options)
        running = page_jobs.fraud_detection(options, rate=4_000 if WANTED else 500)
    yield {"running": running, "failed": failed}
    ended(running)


@pytest.fixture(scope="module")
def server(jobs):
    with serving(*jobs.values()) as running:
        yield running


@pytest.fixture
def visit(browser, server):
    """Opens windows; each must have been without errors, and without a request to another host."""
    visits = []

    def open_(to=server, **options):
        visits.append(Visit(browser, to.client_address, **options))
        return visits[-1]

    yield open_
    for each in visits:
        each.close()


def place(client, tab="graph"):
    return f"/jobs/{client.get_job_id()}/{tab}"


def stat(page, name):
    return page.locator(f"[data-stat='{name}']").first


def number(text):
    """The number at the beginning of a text such as '1,503/s' or '4.1 k'."""
    found = re.match(r"([\d.,]+)\s*([kMG]?)", text)
    assert found, text
    factor = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]]
    return float(found[1].replace(",", "")) * factor


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("count(1234)", "1,234"), ("count(45678)", "45.7 k"), ("count(0.25)", "0.3"),
        ("count(null)", NOTHING), ("rate(2e6)", "2.0 M/s"), ("bytes(0)", "0 B"), ("bytes(3 * 2 ** 30)", "3.0 GiB"),
        ("duration(340)", "340 ms"), ("duration(61_000)", "1 min 1 s"), ("duration(90_000_000)", "1 d 1 h"),
        ("duration(-1)", NOTHING), ("share(0.004)", "< 1 %"), ("share(0.426)", "43 %"),
        ("watermark(1e12, 1e12 + 4200)", "4.2 s behind"), ("watermark(1e12, 2e12)", "at 09-09 01:46:40"),
        ("watermark(-9223372036854775808, 1e12)", None),
        ("watermark(9223372036854775807, 1e12)", "end of input"), ("words('IN_PROGRESS')", "in progress"),
    ],
)  # fmt: skip
def test_figures_are_formatted_for_people(formatting, call, text):
    assert formatting.evaluate(f"window.format.{call}") == text


@pytest.fixture(scope="module")
def formatting(browser, server):
    """A window that has the functions of the page for figures."""
    window = Visit(browser, server.client_address)
    page = window.go("/")
    page.evaluate("import('./web/app/format.js').then((module) => { window.format = module })")
    yield page
    window.close()


def test_the_numbers_of_a_running_job_move_without_a_reload(visit, jobs):
    page = visit().go("/")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.get_by_role("link", name="fraud detection").click()
    page.evaluate("window.loaded_once = true")
    expect(page.get_by_role("heading", name="fraud detection")).to_be_visible()
    expect(stat(page, "Records from sources")).to_have_text(re.compile(r"^[1-9][\d.,]*"))
    # Of 500 records a second, more or less.
    wait_until(lambda: 100 < number(stat(page, "Records from sources").inner_text()) < 6_000)
    before = stat(page, "Duration").inner_text()
    expect(stat(page, "Duration")).not_to_have_text(before)
    expect(page.locator(".edge-label").first).to_have_text(re.compile(r"[\d.,]+.*/s"))
    expect(page.locator(".edge-label", has_text="behind").first).to_be_visible()
    assert page.locator(".node").count() == 5
    page.get_by_role("tab", name="Checkpoints").click()
    number_before = int(stat(page, "Completed").inner_text())
    expect(stat(page, "Completed")).not_to_have_text(str(number_before))
    assert int(stat(page, "Completed").inner_text()) > number_before
    assert page.evaluate("window.loaded_once")


def test_the_graph_goes_from_left_to_right_and_a_vertex_shows_its_subtasks(visit, jobs):
    page = visit().go(place(jobs["running"]))
    source = page.get_by_role("button", name=re.compile("^Source: card payments"))
    detector = page.get_by_role("button", name=re.compile("^fraud detector"))
    alerts = page.get_by_role("button", name=re.compile("^alerts"))
    expect(detector).to_contain_text("busy")
    left = [each.bounding_box()["x"] for each in (source, detector, alerts)]
    assert left == sorted(left)
    detector.click()
    panel = page.get_by_role("complementary", name="Vertex fraud detector")
    expect(panel.get_by_role("row")).to_have_count(3)  # a head and two subtasks
    expect(panel.get_by_text("detector", exact=True)).to_be_visible()  # its uid
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)


def test_all_can_be_reached_with_the_keyboard(visit, jobs):
    page = visit().go("/")
    page.get_by_role("link", name="fraud detection").focus()
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Graph", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Timeline")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tabpanel", name="Timeline")).to_be_visible()
    page.get_by_role("tab", name="Graph", exact=True).focus()
    page.keyboard.press("Space")
    node = page.get_by_role("button", name=re.compile("^Source: card payments"))
    node.focus()
    page.keyboard.press("ArrowRight")
    assert "Source" not in page.evaluate("document.activeElement.ariaLabel")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)


@pytest.mark.ci
def test_a_savepoint_is_taken_by_click_after_logging_in(visit, jobs):
    page = visit().go(place(jobs["running"], "checkpoints"))
    page.get_by_role("button", name="Take a savepoint").click()
    page.get_by_role("button", name="Take savepoint").click()
    login = page.get_by_role("dialog", name="Log in")
    expect(login).to_contain_text("needs the token")
    login.get_by_label("Token").fill("wrong")
    login.get_by_role("button", name="Log in").click()
    expect(login.get_by_role("alert")).to_contain_text("invalid token")
    login.get_by_label("Token").fill(TOKEN)
    login.get_by_role("button", name="Log in").click()
    toast = page.locator(".toasts .notice", has_text="Savepoint taken")
    expect(toast).to_be_visible()
    assert (Path(toast.locator(".mono").inner_text()) / "_metadata").exists()
    expect(page.get_by_text("Last savepoint")).to_be_visible()


def test_a_failing_job_shows_its_exception_with_the_users_traceback(visit, jobs):
    page = visit().go("/")
    page.get_by_role("link", name="currency conversion").click()
    page.get_by_role("tab", name=re.compile("Exceptions")).click()
    trace = page.get_by_label("Traceback")
    expect(trace).to_contain_text("ValueError: no exchange rate for payment")
    expect(trace).to_contain_text("page_jobs.py")
    expect(trace).to_contain_text("fail_later")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()


def test_the_state_of_the_last_checkpoint_is_paged_and_found_by_key(visit, jobs):
    page = visit().go(place(jobs["running"], "state"))
    expect(page.get_by_text("log in with the token")).to_be_visible()
    page.get_by_role("tabpanel").get_by_role("button", name="Log in").click()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("dialog").get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="last payment").click()
    rows = page.locator("table[data-rows] tbody tr")
    expect(rows).to_have_count(25)
    first = rows.first.inner_text()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Rows 26 to 50")).to_be_visible()
    expect(rows.first).not_to_have_text(first)
    page.get_by_label("Key", exact=True).fill("card-0007")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("card-0007")


def test_a_flame_graph_is_drawn_of_what_subtasks_are_found_in(visit, jobs):
    page = visit().go(place(jobs["running"], "flame"))
    frames = page.locator(".flame .frame")
    expect(frames.nth(5)).to_be_visible()
    whole = frames.count()
    width = frames.first.bounding_box()["width"]
    widths = {n: frames.nth(n).bounding_box()["width"] for n in range(1, whole)}
    narrow = min((n for n in widths if widths[n] >= 12), key=widths.get)  # that can be hit
    name = frames.nth(narrow).get_attribute("aria-label")
    frames.nth(narrow).click()
    chosen = page.locator(f'.frame[aria-label="{name}"]').last
    page.wait_for_function(
        "([chosen, width]) => chosen.getBoundingClientRect().width >= width - 2",
        arg=[chosen.element_handle(), width],
    )
    assert frames.count() <= whole  # what is not below or above it is out of sight


def test_charts_grow_while_they_are_looked_at(visit, jobs):
    page = visit().go(place(jobs["running"], "metrics"))
    expect(page.locator("[data-chart='Records in'] canvas")).to_be_visible()
    now = page.locator("[data-chart='Records in'] .now")
    expect(now).to_have_text(re.compile(r"[\d.,]+.*/s"))
    page.get_by_role("button", name="numRecordsIn", exact=True).click()
    chosen = page.locator("[data-chart='numRecordsIn'] .now")
    expect(chosen).to_have_text(re.compile(r"\d"))
    before = chosen.inner_text()
    expect(chosen).not_to_have_text(before)


def test_rescaling_and_cancelling_are_asked_about_and_done(visit, browser, options):
    with MiniCluster("pipelined"):
        client = page_jobs.fraud_detection(options, rate=200, parallelism=1)
    with serving(client) as server:
        page = visit(server).go(place(client), TOKEN)
        node = page.get_by_role("button", name=re.compile("^fraud detector, parallelism 1"))
        expect(node).to_be_visible()
        assert "token" not in page.url
        page.get_by_role("button", name="Rescale").click()
        page.get_by_role("spinbutton", name="Parallelism").fill("0")
        expect(page.get_by_role("dialog").get_by_role("button", name="Rescale")).to_be_disabled()
        page.get_by_role("spinbutton", name="Parallelism").fill("2")
        page.get_by_role("dialog").get_by_role("button", name="Rescale").click()
        node = page.get_by_role("button", name=re.compile("^fraud detector, parallelism 2"))
        expect(node).to_be_visible()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Back", exact=True).click()  # not yet
        assert not client.get_job_status().result().is_terminal_state()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Cancel the job").click()
        expect(page.locator(".job-head .badge")).to_have_text("canceled")
        ended(client)


def test_buttons_that_options_take_away_are_not_there(visit, jobs, server):
    painted = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

    def buttons():
        with page.expect_response(re.compile(r"/config$")):
            page.reload()
        expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
        page.evaluate(painted)  # the answer is shown now
        names = ("Savepoint", "Rescale", "Stop", "Cancel")
        return [name for name in names if page.get_by_role("button", name=name, exact=True).count()]

    page = visit().go(place(jobs["running"]), TOKEN)
    assert buttons() == ["Savepoint", "Rescale", "Stop", "Cancel"]
    server.services.web = WebSettings(cancel=False, rescale=False)
    try:
        assert buttons() == ["Savepoint", "Stop"]
    finally:
        server.services.web = WebSettings()


def test_stopping_takes_a_savepoint_and_ends_the_job(visit, options):
    with MiniCluster("pipelined"):
        client = page_jobs.fraud_detection(options, rate=200, parallelism=1)
    with serving(client) as server:
        page = visit(server).go(place(client), TOKEN)
        page.get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("button", name="Stop the job").click()
        toast = page.locator(".toasts .notice", has_text="has stopped with a savepoint")
        expect(toast).to_be_visible()
        assert (Path(toast.locator(".mono").inner_text()) / "_metadata").exists()
        expect(page.locator(".job-head .badge")).to_have_text("finished")
        ended(client)


def test_elsewhere_nothing_is_shown_without_the_token(visit, jobs):
    with serving(jobs["running"], bind_address="0.0.0.0") as server:
        page = visit(server).go("/")
        login = page.get_by_role("dialog", name="Log in")
        expect(login).to_be_visible()
        assert page.get_by_text("fraud detection").count() == 0
        login.get_by_label("Token").fill(TOKEN)
        login.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("link", name="fraud detection")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(login).to_be_visible()


def test_the_page_finds_back_when_the_server_was_away(visit, jobs):
    with serving(jobs["running"]) as server:
        port = server.server_address[1]
        page = visit(server).go("/")
        expect(page.get_by_label("Live", exact=True)).to_be_visible()
    expect(page.get_by_label("Connecting…")).to_be_visible()
    with serving(jobs["running"], ports=(port,)):
        expect(page.get_by_label("Live", exact=True)).to_be_visible()


def test_fifty_vertices_stay_readable(visit, options, request):
    with MiniCluster("pipelined"):
        client = page_jobs.wide(50, options, rate=20)
    request.addfinalizer(lambda: ended(client))
    with serving(client) as server:
        page = visit(server).go(place(client))
        expect(page.locator(".node")).to_have_count(50)
        boxes = [each.bounding_box() for each in page.locator(".node").all()]
        for n, one in enumerate(boxes):
            assert one["width"] >= 150, "names cannot be read"
            for other in boxes[n + 1 :]:
                apart = abs(one["x"] - other["x"]) >= one["width"]
                assert apart or abs(one["y"] - other["y"]) >= one["height"], "they overlap"
        scale = boxes[0]["width"] / page.locator(".node").first.evaluate("e => e.offsetWidth")
        size = page.locator(".node strong").first.evaluate("e => getComputedStyle(e).fontSize")
        assert float(size.removesuffix("px")) * scale >= 9
        assert page.locator(".minimap rect").count() >= 50
        page.get_by_role("button", name="Fit all").click()
        area = page.locator(".graph-scroll")
        expect(page.get_by_role("button", name="Reset")).to_be_visible()
        assert area.evaluate("e => e.scrollWidth - e.clientWidth") <= 4
        picture(page, "page-large.png", lambda: page.get_by_role("button", name="Reset").click())


@pytest.mark.parametrize(
    ("theme", "size"),
    [
        ("light", {}),
        ("dark", PHONE),
        ("dark", {}),
        ("light", PHONE),
    ],
    ids=["light", "dark phone", "dark", "light phone"],
)
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(visit, jobs, theme, size):
    page = visit(theme=theme, **size).go("/", TOKEN)
    places = ["/", "/cluster", "/submit", place(jobs["failed"], "exceptions")]
    places += [place(jobs["running"], tab) for tab in TABS]
    found = {}
    for each in places:
        page.evaluate("hash => { location.hash = hash }", each)
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        found[each] = axe_findings(page)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{each} is {wide} px too wide"
    assert {each: what for each, what in found.items() if what} == {}


def test_pictures_for_the_readme(visit, jobs):
    page = visit(height=860).go(place(jobs["running"]), TOKEN)
    page.get_by_role("button", name=re.compile("^fraud detector")).click()
    expect(page.locator(".edge-label", has_text="behind").first).to_be_visible()
    expect(stat(page, "Latency, p99")).to_be_visible()
    expect(page.get_by_role("complementary").get_by_role("row")).to_have_count(3)
    if WANTED:  # latencies of a job that has just started say nothing about it
        expect(stat(page, "Duration")).to_contain_text("min", timeout=180_000)
    picture(page, "page-graph.png", clip={"x": 0, "y": 0, "width": 1280, "height": 740})
    page = visit(theme="dark", height=860).go(place(jobs["running"], "checkpoints"))
    expect(page.get_by_role("button", name=re.compile("Checkpoint")).nth(2)).to_be_visible()
    picture(page, "page-checkpoints-dark.png")
    page = visit(**PHONE).go(place(jobs["running"]))
    expect(page.locator(".edge-label").first).to_be_visible()
    picture(page, "page-phone.png")


def picture(page, name, before=lambda: None, **part):
    """Make a picture; it is kept only if the pictures of the README are wanted again."""
    before()
    page.mouse.move(0, 0)  # what is under it looks different
    shot = page.screenshot(animations="disabled", **part)
    assert shot.startswith(b"\x89PNG")
    if WANTED:
        (IMAGES / name).write_bytes(shot)


def test_the_page_goes_to_the_leader_and_on_to_the_next_one_when_it_dies(visit, jobs):
    client = jobs["running"]
    with serving(client) as second:
        with serving(client) as first:
            second.services.elsewhere = lambda: first.client_address
            first.services.peers.note(second.client_address)
            window = visit(second)
            page = window.go(place(client), TOKEN)
            page.wait_for_url(re.compile(re.escape(first.client_address)))
            expect(page.locator(".node")).to_have_count(5)
            expect(
                page.get_by_role("button", name="Log out")
            ).to_be_visible()  # the token came along
        page.wait_for_url(re.compile(re.escape(second.client_address)))
        second.services.elsewhere = lambda: None  # it took over
        expect(page.locator(".node")).to_have_count(5)
        expect(page.get_by_label("Live", exact=True)).to_be_visible()
        assert "token" not in page.url
        window.hosts -= {first.client_address}


PROGRAM = """
import sys
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.common import Configuration, WatermarkStrategy

options = Configuration.from_dict({"penstock.execution.mode": "pipelined"})  # an epoch in a thread cannot be ended
env = StreamExecutionEnvironment.get_execution_environment(options)
source = DataGeneratorSource(lambda index, rng: index, count=10**9, rate_per_second=100)
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
stream.filter(lambda number: False).name("nothing").print()
env.execute(sys.argv[1])
"""


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session of its own, as `penstock session start` makes one; its address."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)

    def penstock(*arguments):
        command = [sys.executable, "-m", "penstock", "session", *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
        return json.loads(done.stdout)

    started = penstock("start", "--no-spark", "--json")
    yield started["address"]
    penstock("stop", "--json")


def test_a_program_is_uploaded_and_run_in_a_session(browser, session, tmp_path):
    program = tmp_path / "numbers.py"
    program.write_text(PROGRAM)
    window = Visit(browser, session)
    page = window.go("/submit", TOKEN)
    page.get_by_label("Python file").set_input_files(program)
    page.get_by_role("button", name="Upload").click()
    row = page.get_by_role("row", name=re.compile("numbers.py"))
    row.get_by_role("button", name="Run").click()
    page.get_by_role("textbox", name="Arguments").fill("'sent by click'")
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", name="sent by click")).to_be_visible(timeout=90_000)
    expect(page.locator(".job-head .badge")).to_have_text("running")
    page.get_by_role("link", name="Submit").click()
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No program was uploaded")).to_be_visible()
    window.close()


def test_a_process_with_its_own_program_takes_no_others(visit):
    page = visit().go("/submit", TOKEN)
    expect(page.get_by_text("penstock session start")).to_be_visible()
    expect(page.get_by_role("button", name="Upload")).to_have_count(0)
