"""A job at a glance: from its description to what the page draws."""

from __future__ import annotations

import pytest

from penstock.rest.resources.job_graph import job_graph
from tests.builders.rest_fakes import NOW, FakeController

FIGURES = {
    "reported": 2, "busy": 0.5, "back_pressured": 0.25, "idle": 0.25, "records_in": 10.0,
    "records_out": 20.0, "bytes_in": 100.0, "bytes_out": 200.0, "watermark": NOW - 5_000,
}  # fmt: skip


def described(edges, **figures):
    """A job of the vertices that its edges name; each has the figures that are given for it."""
    job = FakeController().describe()
    names = sorted({name for edge in edges for name in edge})
    job["vertices"] = [
        FakeController.vertex(name, name, 2, [(name, None, name)])
        | {"figures": FIGURES | figures[name] if name in figures else None}
        for name in names
    ]
    job["edges"] = [
        {"source": source, "target": target, "strategy": "HASH", "side_tag": None}
        for source, target in edges
    ]
    return job


def flows(job):
    return {
        edge["source"] + edge["target"]: edge["recordsPerSecond"]
        for edge in job_graph(job, NOW)["edges"]
    }


def test_an_edge_carries_what_its_only_receiver_takes():
    job = described([("a", "b"), ("a", "c")], a={}, b={"records_in": 7.0}, c={"records_in": 9.0})
    assert flows(job) == {"ab": 7.0, "ac": 9.0}


def test_where_edges_meet_each_carries_what_its_sender_sends():
    job = described([("a", "c"), ("b", "c")], a={"records_out": 3.0}, b={}, c={})
    assert flows(job) == {"ac": 3.0, "bc": 20.0}


def test_without_metrics_no_figures_are_returned():
    job = described([("a", "c"), ("b", "c"), ("a", "d")], a={}, b={}, c={}, d={"records_in": 1.0})
    assert flows(job) == {"ac": None, "bc": 20.0, "ad": 1.0}


def test_a_vertex_shows_its_load_and_whether_it_is_a_source():
    a, b = job_graph(described([("a", "b")], a={}), NOW)["vertices"]
    assert (a["source"], b["source"]) == (True, False)
    assert (a["busy"], a["backPressured"], a["idle"]) == (0.5, 0.25, 0.25)
    assert (b["busy"], b["recordsInPerSecond"], b["watermark"]) == (None, None, None)


def test_the_watermark_of_an_edge_is_its_senders():
    assert job_graph(described([("a", "b")], a={}), NOW)["edges"][0]["watermark"] == NOW - 5_000


@pytest.mark.parametrize(
    ("exceptions", "failure", "count"),
    [({"entries": [{}, {}]}, "boom", 2), ({"entries": []}, "boom", 1), (None, None, 0)],
)
def test_failures_are_counted_for_the_tab(exceptions, failure, count):
    job = FakeController().describe() | {"exceptions": exceptions, "failure": failure}
    assert job_graph(job, NOW)["failures"] == count
