"""What a running job tells about itself: subtasks, operators of their chains, and what user functions measure; in both modes."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from penstock.testing import MiniCluster
from tests.builders.measured_job import measured_environment
from tests.builders.waiting import wait_until


@pytest.fixture(params=["epochs", "pipelined"], scope="module")
def job(request, tmp_path_factory):
    with MiniCluster(mode=request.param):
        client = measured_environment(tmp_path_factory.mktemp("job")).execute_async("measured")
        yield client._controller, request.param
        client.cancel().exception(60)


def vertex_of(controller, vertex):
    return controller.view().vertices()[vertex]


def reports(controller, vertex):
    """The metrics of all subtasks."""
    return [each.metrics for each in vertex_of(controller, vertex).reports]


def operators(controller, vertex):
    """By the name of the operator what the first subtask's has measured."""
    return operators_of(vertex_of(controller, vertex))


def operators_of(described):
    ids = {each.id: each.name for each in described.operators}
    return {ids[each]: found for each, found in described.reports[0].operators.items()}


def test_a_running_job_tells_what_flink_tells(job):
    controller, mode = job
    wait_until(
        lambda: all(report.get("numLateRecordsDropped", 0) > 3 for report in reports(controller, 2))
    )
    (dropped,) = controller.view().dropped()
    assert dropped.metric == "numLateRecordsDropped"
    assert 6 < dropped.dropped <= dropped.records
    assert dropped.watermark > 1_000_000_000_000
    assert dropped.lateness_ms >= 0
    started = controller.view().start_ms

    def while_it_works():
        """Rates are those of some moments, in which others may have had the processors."""
        found = [reports(controller, vertex) for vertex in range(3)]
        rates = [report["numRecordsInPerSecond"] for each in found[1:] for report in each]
        return found if found[0][0]["busyTimeMsPerSecond"] > 200 and min(rates) > 0 else None

    source, waiting, sums = wait_until(while_it_works, "records everywhere")
    for report in (*source, *waiting, *sums):
        shares = [report[f"{share}TimeMsPerSecond"] for share in ("busy", "idle", "backPressured")]
        assert sum(shares) == 1000
        assert report["numRecordsIn"] > 0
        assert report["accumulateBusyTimeMs"] > 0
    for report in (*waiting, *sums):
        assert report["numBytesIn"] >= 0
        assert report["currentInputWatermark"] > 1_000_000_000_000
        reported = report["watermarkLag"] + report["currentInputWatermark"]
        assert started <= reported <= time.time() * 1000
    assert sum(report["numRecordsIn"] for report in waiting) > 200
    assert sum(report["numStateEntries"] for report in waiting) == 7
    assert sum(report["numEventTimeTimers"] for report in waiting) == 7
    assert all(report["stateSizeBytes"] > 0 for report in waiting)
    if mode == "pipelined":
        assert all(0 <= report["buffers.inPoolUsage"] <= 1 for report in (*waiting, *sums))
        assert any(each.latencies for each in vertex_of(controller, 2).reports)


def test_of_a_chain_the_time_goes_to_the_operator_that_takes_it(job):
    controller, _ = job
    wait_until(lambda: len(operators(controller, 0)) == 2)
    wait_until(lambda: "busyTimeMsPerSecond" in operators(controller, 0)["measuring: all"])

    def busy_times():
        """Return those of the operators and of the subtask, at the same moment."""
        described = vertex_of(controller, 0)
        found = operators_of(described).items()
        busy = {name: measured["busyTimeMsPerSecond"][1] for name, measured in found}
        return busy, described.reports[0].metrics

    def is_most_of_it():
        busy, report = busy_times()
        return busy["measuring: all"] > 0.6 * report["busyTimeMsPerSecond"]

    wait_until(is_most_of_it)
    busy, report = busy_times()
    assert sum(busy.values()) + report["exchangeTimeMsPerSecond"] == pytest.approx(
        report["busyTimeMsPerSecond"], abs=2
    )


def test_what_user_functions_measure_is_seen_while_the_job_runs(job):
    controller, _ = job

    def seen():
        return operators(controller, 0).get("measuring: all", {}).get("seen", (None, 0))[1]

    wait_until(lambda: seen() > 0)
    before = seen()
    wait_until(lambda: seen() > before)
    measured = operators(controller, 0)["measuring: all"]
    kind, count = measured["seen"]
    assert kind == "counter"
    assert measured["topic.orders.orders"] == (
        "counter", count, "topic.orders", (("topic", "orders"),)
    )  # fmt: skip
    kind, rate = measured["shop.rate"]
    assert (kind, rate["count"]) == ("meter", count)
    assert 0 < rate["rate"] < 6000
    kind, sizes = measured["sizes"]
    assert (kind, sizes["count"], sizes["min"], sizes["max"]) == ("distribution", count, 0, 9)
    assert measured["twice"][0] == "gauge"
    assert measured["twice"][1] > 0
    assert "broken" not in measured
    assert measured["numRecordsIn"][1] == count


def test_the_page_names_every_metric_of_a_subtask_and_its_program_runs(job, capsys):
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    controller, _ = job
    wait_until(lambda: all(reports(controller, vertex)[0] for vertex in range(3)))
    names = {name for vertex in range(3) for name in reports(controller, vertex)[0]}
    assert {name for name in names if f"`{name}`" not in page} == set()
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    exec(compile(program, "metrics.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.splitlines()[-1] == "3"
