"""Jobs that write to a real OpenSearch server, in both modes, over failures of the job and of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.modes import MODES, runs_in
from tests.builders.waiting import wait_until

COUNT = 3000
failed: list[int] = []


def fail_twice(document):
    if document["n"] in {COUNT // 3, COUNT // 2} and document["n"] not in failed:
        failed.append(document["n"])
        raise RuntimeError("once")
    return document


def environment(mode, **options):
    failed.clear()
    return configured({"execution.checkpointing.interval": "50 ms", **runs_in(mode), **options}, 2)


def sink(documents, key="id", **settings):
    builder = (
        Elasticsearch7SinkBuilder()
        .set_hosts(f"127.0.0.1:{documents.server.port}")
        .set_emitter(ElasticsearchEmitter.static_index(documents.index, key))
        .set_bulk_flush_max_actions(200)
        .set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3000, 100)
    )
    for name, value in settings.items():
        getattr(builder, name)(value)
    return builder.build()


def records(count=COUNT):
    return [{"id": f"d{n}", "n": n, "square": n * n} for n in range(count)]


@pytest.mark.parametrize("mode", MODES)
def test_documents_with_ids_are_there_once_though_the_job_fails(mode, documents):
    env = environment(mode, **restarts(5))
    env.from_collection(records()).map(fail_twice).sink_to(sink(documents))
    with MiniCluster():
        env.execute()
    assert len(failed) == 2
    assert documents.all() == {each["id"]: each for each in records()}


@pytest.mark.parametrize("mode", MODES)
def test_without_ids_records_come_again_after_a_failure(mode, documents):
    """What the guarantee does not say does happen: no checkpoint comes before the failures, so all is sent again."""
    env = environment(mode, **restarts(5), **{"execution.checkpointing.interval": "1 h"})
    target = sink(documents, key=None, set_bulk_flush_max_actions=10)
    env.from_collection(records()).map(fail_twice).sink_to(target)
    with MiniCluster():
        env.execute()
    found = sorted(each["n"] for each in documents.all().values())
    assert set(found) == set(range(COUNT))
    assert len(found) > COUNT


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_and_comes_back_is_waited_for(mode, opensearch, documents):
    env = environment(mode, **{"restart-strategy.type": "none"})
    killer = KillOnce()
    env.from_collection(records()).map(killer).sink_to(sink(documents))
    with MiniCluster():
        running = env.execute_async()
        killer.wait()
        opensearch.kill()
        opensearch.start()
        running.get_job_execution_result().result()
    assert documents.all() == {each["id"]: each for each in records()}


class KillOnce:
    """Holds the stream back for a moment in the middle, and says so."""

    def wait(self):
        wait_until(lambda: bool(failed), seconds=120)

    def __call__(self, document):
        import time

        if document["n"] == COUNT // 2:
            failed.append(document["n"])
        if document["n"] % 100 == 0:
            time.sleep(0.02)
        return document


@pytest.mark.parametrize("mode", MODES)
def test_the_last_update_of_a_document_wins(mode, documents):
    env = environment(mode)
    env.from_collection([{"id": "one", "n": n, f"f{n % 3}": n} for n in range(500)]).sink_to(
        sink(documents, set_bulk_flush_max_actions=17)
    ).set_parallelism(1)
    with MiniCluster():
        env.execute()
    assert documents.all() == {"one": {"id": "one", "n": 499, "f0": 498, "f1": 499, "f2": 497}}


@pytest.mark.parametrize("mode", MODES)
def test_a_document_that_does_not_fit_fails_the_job_with_the_servers_reason(mode, documents):
    documents.create({"n": {"type": "integer"}})
    env = environment(mode, **{"restart-strategy.type": "none"})
    env.from_collection([{"id": "a", "n": 1}, {"id": "b", "n": "one"}]).sink_to(sink(documents))
    with (
        MiniCluster(),
        pytest.raises(JobExecutionError, match="mapper_parsing_exception") as caught,
    ):
        env.execute()
    assert documents.index in str(caught.value)
    assert "'n': 'one'" in str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_documents_that_do_not_fit_may_go_to_a_side_output(mode, documents):
    documents.create({"n": {"type": "integer"}})
    env = environment(mode)
    refused.clear()
    env.from_collection([{"id": str(n), "n": n if n % 7 else "seven"} for n in range(50)]).sink_to(
        sink(documents, set_on_rejected=note)
    )
    with MiniCluster():
        env.execute()
    assert set(documents.all()) == {str(n) for n in range(50) if n % 7}
    assert sorted(int(each) for each in refused) == list(range(0, 50, 7))


def test_each_record_goes_to_the_index_that_it_names(documents):
    env = environment("epochs")
    target = (
        Elasticsearch7SinkBuilder()
        .set_hosts(documents.server.url)
        .set_emitter(ElasticsearchEmitter.dynamic_index("to", "id"))
        .build()
    )
    names = [f"{documents.index}-{n}" for n in range(3)]
    env.from_collection([{"to": names[n % 3], "id": n} for n in range(30)]).sink_to(target)
    with MiniCluster():
        env.execute()
    for at, name in enumerate(names):
        assert sorted(each["id"] for each in documents.all(name).values()) == list(range(at, 30, 3))


def test_the_program_of_the_page_runs(opensearch, documents):
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "more-connectors.md").read_text()
    program = next(each for each in page.split("```python\n") if "static_index" in each)
    program = program.partition("```")[0].replace("localhost:9200", opensearch.url)
    with MiniCluster():
        exec(compile(program, "more-connectors.md", "exec"), {"__name__": "page"})
    assert len(documents.all("users")) == 100


refused: list[str] = []


def note(rejected):
    refused.append(rejected.record["id"])
