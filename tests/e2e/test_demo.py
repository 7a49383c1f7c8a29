"""The demo as a user runs it: started, interrupted, resumed. Its files must be those of a run without interruption."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from penstock.connectors.base.source import ReadLimits
from tests.builders.chromium import CHROMIUM, chromium

SCRIPT = Path(__file__).parents[2] / "examples" / "fraud_demo.py"
TIMEOUT_S = 240.0


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("fraud_demo", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fraud_demo"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["fraud_demo"]


def start(*arguments):
    # Its own session: the interrupt goes to all its processes, as Ctrl-C in a terminal does.
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )


def heed_interrupts():
    """Undo what a shell does to commands in the background: they, and all below them, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(process, condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the demo did not get that far"
        time.sleep(0.05)


def address_of_page(process):
    """What the demo says where it can be watched."""
    for line in process.stdout:
        if line.startswith("Watch it in a browser: "):
            return line.split(": ", 1)[1].strip()
    raise AssertionError("the demo did not tell where its page is")


@pytest.fixture
def watch():
    """Opens the page, as a user does who has started the demo, and sees its records flow. The browser is there before the demo."""
    if CHROMIUM is None and "CI" not in os.environ:
        yield lambda address: None
        return
    from playwright.sync_api import expect

    with chromium() as browser:
        page = browser.new_page()

        def look(address):
            page.goto(address)
            page.get_by_role("link", name="fraud demo").click()
            rate = page.locator("[data-stat='Records from sources']")
            expect(rate).to_have_text(re.compile(r"^[1-9][\d.,]*"), timeout=TIMEOUT_S * 1000)
            expect(page.locator(".node")).not_to_have_count(0)
            expect(page.get_by_role("button", name="Log out")).to_be_visible()

        yield look


def all_transactions(demo, settings):
    source = demo.DataGeneratorSource(demo.transaction, count=settings.records, seed=settings.seed)
    (split,) = source.create_enumerator(1).discover()
    batches = source.create_reader().read(split, split.start, ReadLimits())
    return [record for batch in batches for record in batch.records]


def is_late(demo, payment):
    return payment["time"] < demo.START + payment["id"] * demo.STEP_MS - demo.DISORDER_MS


def expected_sums(demo, payments):
    sums = {}
    for payment in payments:
        key = payment["card"], payment["time"] // demo.MINUTE * demo.MINUTE
        cents, count = sums.get(key, (0, 0))
        sums[key] = cents + payment["cents"], count + 1
    return Counter((card, demo.show(minute), *both) for (card, minute), both in sums.items())


def expected_alerts(demo, payments):
    alerts, probes = Counter(), {}
    for payment in sorted(payments, key=lambda payment: (payment["time"], payment["id"])):
        probe = probes.get(payment["card"])
        if payment["cents"] < demo.SMALL:
            probes[payment["card"]] = payment
            continue
        in_reach = probe is not None and payment["time"] < probe["time"] + demo.MINUTE
        if in_reach and payment["cents"] >= demo.LARGE:
            moment = demo.show(payment["time"])
            alerts[payment["card"], moment, payment["cents"], probe["cents"]] += 1
    return alerts


def test_an_interrupted_and_resumed_demo_writes_every_record_once(demo, watch, tmp_path):
    out = tmp_path / "results"
    first = start("--seconds", 120, "--rate", 1500, "--out", out)  # it is interrupted long before
    try:
        watch(address_of_page(first))
        wait_for(first, lambda: any(out.glob("aggregates/part-*")))
        os.killpg(first.pid, signal.SIGINT)
        said, _ = first.communicate(timeout=TIMEOUT_S)
    finally:
        first.kill()
    assert first.returncode == 0, said
    assert "Stopped after" in said
    assert f"make demo RESUME={out}" in said
    assert "Traceback" not in said
    checkpoint = demo.find_checkpoint(out)
    published = {path: path.read_bytes() for path in out.glob("*/part-*")}

    settings = demo.load_settings(out)
    (out / "demo.json").write_text(json.dumps(asdict(replace(settings, rate=1_000_000))))
    said = run_to_the_end("--resume", out, "--no-live")
    assert f"Resuming from {checkpoint}" in said
    check_results(demo, out)
    assert {path: path.read_bytes() for path in published} == published


@pytest.mark.ci
def test_a_short_demo_writes_every_record_once(demo, tmp_path):
    out = tmp_path / "results"
    run_to_the_end("--seconds", 1, "--rate", 50_000, "--out", out, "--no-live")
    check_results(demo, out)


def run_to_the_end(*arguments):
    """Run the demo and return what it said."""
    process = start(*arguments)
    try:
        said, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert "Finished after" in said
    assert "Traceback" not in said
    return said


def check_results(demo, out):
    """Compare the files of a demo that has ended with what plain Python computes."""
    payments = all_transactions(demo, demo.load_settings(out))
    in_time = [payment for payment in payments if not is_late(demo, payment)]
    late = [payment for payment in payments if is_late(demo, payment)]
    assert Counter(
        (line["card"], line["minute"], line["cents"], line["transactions"])
        for line in demo.read_lines(out / "aggregates")
    ) == expected_sums(demo, in_time)
    assert Counter(
        (line["card"], line["time"], line["cents"], line["probe_cents"])
        for line in demo.read_lines(out / "alerts")
    ) == expected_alerts(demo, in_time)
    assert sorted(line["id"] for line in demo.read_lines(out / "late")) == [p["id"] for p in late]
    assert late
