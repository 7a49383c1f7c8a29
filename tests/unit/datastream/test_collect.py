"""execute_and_collect: elements come back as their epochs are committed."""

from __future__ import annotations

import pytest

from penstock.connectors.base.sink import CheckpointContext, CommitRequest, WriterContext
from penstock.errors import JobExecutionError


def sink_of(executor, job=0):
    return executor.submitted[job][0][-1].spec.sink


def commit(sink, tmp_path, checkpoint_id, *per_subtask):
    """Write and commit one epoch, as a job would."""
    committables = []
    for subtask, values in enumerate(per_subtask):
        context = WriterContext("job", "op", subtask, len(per_subtask), str(tmp_path))
        writer = sink.create_writer(context)
        writer.begin(CheckpointContext(checkpoint_id, "a0"))
        writer.write(list(values), None, 0)
        committables += writer.prepare_commit()
        writer.close()
    request = CommitRequest(checkpoint_id, committables)
    sink.create_committer().commit(request)
    return request


@pytest.fixture
def running(executor):
    executor.on_submit = lambda controller, transformations: None
    return executor


def test_elements_come_in_the_order_of_their_epochs(stream, running, tmp_path):
    with stream.execute_and_collect("collect") as elements:
        sink = sink_of(running)
        commit(sink, tmp_path, 1, ["a", "b"])
        assert [next(elements), elements.next()] == ["a", "b"]
        commit(sink, tmp_path, 2, ["c"])
        running.controllers[0].succeed()
        assert list(elements) == ["c"]
    assert running.submitted[0][3] == "collect"
    assert not running.controllers[0].cancelled


def test_a_commit_that_is_repeated_gives_nothing_twice(stream, running, tmp_path):
    elements = stream.execute_and_collect()
    sink = sink_of(running)
    request = commit(sink, tmp_path, 1, ["a"])
    sink.create_committer().commit(request)
    running.controllers[0].succeed()
    assert list(elements) == ["a"]


def test_the_error_of_the_job_comes_after_its_elements(stream, running, tmp_path):
    elements = stream.execute_and_collect()
    commit(sink_of(running), tmp_path, 1, ["a"])
    running.controllers[0].result.set_exception(JobExecutionError("boom"))
    assert next(elements) == "a"
    with pytest.raises(JobExecutionError, match="boom"):
        next(elements)


def test_closing_cancels_a_job_that_still_runs_and_ends_the_iteration(stream, running, tmp_path):
    elements = stream.execute_and_collect()
    sink = sink_of(running)
    commit(sink, tmp_path, 1, ["a"])
    elements.close()
    elements.close()
    assert running.controllers[0].cancelled
    assert list(elements) == []
    commit(sink, tmp_path, 2, ["b"])  # the job continues for a while: the iterator is closed
    assert list(elements) == []


def test_a_limit_gives_a_list_and_ends_the_job(stream, running, tmp_path):
    def on_submit(controller, transformations):
        commit(transformations[-1].spec.sink, tmp_path, 1, range(10))

    running.on_submit = on_submit
    assert stream.execute_and_collect(limit=3) == [0, 1, 2]
    assert running.controllers[0].cancelled


def test_fewer_elements_than_the_limit_are_all_of_them(stream, executor, tmp_path):
    def on_submit(controller, transformations):
        commit(transformations[-1].spec.sink, tmp_path, 1, range(2))
        controller.succeed()

    executor.on_submit = on_submit
    assert stream.execute_and_collect("two", 3) == [0, 1]
    assert not executor.controllers[0].cancelled


def test_the_collecting_sink_runs_in_one_subtask_and_belongs_to_one_job(env, stream, executor):
    stream.execute_and_collect().close()
    stream.execute_and_collect().close()
    (first,), (second,) = (submitted[0] for submitted in executor.submitted)
    assert first is not second
    assert (first.parallelism, first.name) == (1, "Collect Stream Sink")
    assert executor.submitted[0][3] == "DataStream Collect"


def test_side_outputs_and_unions_can_be_collected(stream, executor):
    stream.union(stream).execute_and_collect().close()
    stream.rebalance().execute_and_collect().close()
    assert len(executor.submitted) == 2
