"""A job at a glance: from its description to what the page draws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.jobmanager.execution.failure_history import FailureEntry, FailureHistory
from penstock.jobmanager.job_view import EdgeView, Lazy, SubtaskReport
from penstock.rest.resources.job_graph import JobGraphInfo
from tests.builders.rest_fakes import NOW, FakeController

FIGURES = {"busy": 500, "backPressured": 250, "idle": 250}
RATES = {"RecordsIn": 10.0, "RecordsOut": 20.0, "BytesIn": 100.0, "BytesOut": 200.0}


def reported(**rates):
    """The report of a subtask, with half of the rates of its vertex."""
    return {
        **{f"{name}TimeMsPerSecond": share for name, share in FIGURES.items()},
        **{f"num{name}PerSecond": rate / 2 for name, rate in (RATES | rates).items()},
        "currentInputWatermark": NOW - 5_000,
    }


def described(edges, **rates):
    """A job of the vertices that its edges name; those have reported whose rates are given."""
    names = sorted({name for edge in edges for name in edge})
    vertices = [
        FakeController.vertex(
            name,
            name,
            2,
            [(name, None, name)],
            reports=(SubtaskReport(reported(**rates[name])),) * 2 if name in rates else (),
        )
        for name in names
    ]
    found = [EdgeView(source, target, "HASH") for source, target in edges]
    return replace(
        FakeController().view(), vertices=Lazy.of(tuple(vertices)), edges=Lazy.of(tuple(found))
    )


def flows(job):
    return {edge.source + edge.target: edge.records for edge in JobGraphInfo.of(job, NOW).edges}


def test_an_edge_carries_what_its_only_receiver_takes():
    job = described([("a", "b"), ("a", "c")], a={}, b={"RecordsIn": 7.0}, c={"RecordsIn": 9.0})
    assert flows(job) == {"ab": 7.0, "ac": 9.0}


def test_where_edges_meet_each_carries_what_its_sender_sends():
    job = described([("a", "c"), ("b", "c")], a={"RecordsOut": 3.0}, b={}, c={})
    assert flows(job) == {"ac": 3.0, "bc": 20.0}


def test_without_metrics_no_figures_are_returned():
    job = described([("a", "c"), ("b", "c"), ("a", "d")], a={}, b={}, c={}, d={"RecordsIn": 1.0})
    assert flows(job) == {"ac": None, "bc": 20.0, "ad": 1.0}


def test_a_vertex_shows_its_load_and_whether_it_is_a_source():
    a, b = JobGraphInfo.of(described([("a", "b")], a={}), NOW).vertices
    assert (a.source, b.source) == (True, False)
    assert (a.busy, a.back_pressured, a.idle) == (0.5, 0.25, 0.25)
    assert (b.busy, b.records_in, b.watermark) == (None, None, None)


def test_the_watermark_of_an_edge_is_its_senders():
    assert JobGraphInfo.of(described([("a", "b")], a={}), NOW).edges[0].watermark == NOW - 5_000


@pytest.mark.parametrize(
    ("kept", "failure", "count"), [(2, "boom", 2), (0, "boom", 1), (0, None, 0)]
)
def test_failures_are_counted_for_the_tab(kept, failure, count):
    history = FailureHistory((FailureEntry(NOW, "ValueError", "boom"),) * kept)
    job = replace(FakeController().view(), failures=history, failure=failure)
    assert JobGraphInfo.of(job, NOW).failures == count
