"""A real job in this process, reached through its published endpoint by HTTP."""

from __future__ import annotations

import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream.connectors import DataGeneratorSource
from penstock.rest import processes, publish
from penstock.rest.client.rest_client import RestClient
from penstock.testing import MiniCluster
from tests.builders.environments import configured


@pytest.fixture
def client(publisher, tmp_path):
    with MiniCluster() as cluster:
        options = {
            "execution.checkpointing.interval": "5 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
        }
        env = configured(options, 2)
        numbers = env.from_source(
            DataGeneratorSource(lambda i: i % 5), WatermarkStrategy.no_watermarks(), "numbers"
        )
        counts = numbers.uid("numbers").key_by(lambda n: n).reduce(lambda a, b: a + b)
        counts.uid("counts").filter(lambda _: False).print()
        submit = cluster.submit

        def submit_and_publish(*arguments, **options):
            controller = submit(*arguments, **options)
            publish.publish(controller, env.get_configuration())
            return controller

        cluster.submit = submit_and_publish
        job = env.execute_async("numbers")
        publisher.settle()
        (record,) = processes.read_all()
        client = RestClient(record.address, record.token)
        client.job = f"/jobs/{job.get_job_id()}"
        while client.get(client.job)["state"] == "CREATED":
            """Its thread has not begun yet."""
        yield client
        job.cancel().result()


def result(client, resource, trigger):
    while True:
        answer = client.get(f"{client.job}/{resource}/{trigger['request-id']}")
        if answer["status"]["id"] == "COMPLETED":
            assert "failure-cause" not in answer["operation"], answer
            return answer["operation"]


def parallelism(client):
    vertices = client.get(client.job)["vertices"]
    return {vertex["operators"][0]["uid"]: vertex["parallelism"] for vertex in vertices}


def wait_for_acks(client):
    """Wait until every subtask there is has acknowledged a checkpoint; return the subtasks."""
    while True:
        ids = [vertex["id"] for vertex in client.get(client.job)["vertices"]]
        vertices = [client.get(f"{client.job}/vertices/{vertex}") for vertex in ids]
        subtasks = [each for vertex in vertices for each in vertex["subtasks"]]
        if all(each["penstock"]["checkpoint"] for each in subtasks):
            assert {each["status"] for each in subtasks} == {"RUNNING"}
            assert all(each["penstock"]["acknowledged"] >= each["start-time"] for each in subtasks)
            return subtasks


def test_a_running_job_is_watched_saved_rescaled_and_stopped(client, tmp_path):
    (job,) = client.get("/jobs/overview")["jobs"]
    assert (job["name"], job["state"]) == ("numbers", "RUNNING")
    assert parallelism(client) == {"numbers": 2, "counts": 2}
    acknowledged = wait_for_acks(client)
    assert all(each["attempt"] == 0 for each in acknowledged)
    (vertex, *_) = client.get(client.job)["vertices"]
    assert (vertex["status"], vertex["tasks"]["RUNNING"]) == ("RUNNING", 2)
    assert vertex["start-time"] > 0
    assert client.get("/jobs/overview")["jobs"][0]["tasks"]["running"] == 4

    savepoint = result(
        client, "savepoints", client.request("POST", f"{client.job}/savepoints", {})
    )["location"]
    assert savepoint.startswith(str(tmp_path / "savepoints"))
    assert client.get(client.job)["penstock"]["savepoint"] == savepoint
    config = client.get(f"{client.job}/checkpoints/config")
    assert (config["mode"], config["state_backend"]) == ("exactly_once", "hashmap")
    found = client.get(f"{client.job}/checkpoints")
    newest = found["history"][0]["id"]
    assert client.get(f"{client.job}/checkpoints/details/{newest}")["tasks"]
    latest = found["latest"]
    assert latest["savepoint"]["external_path"] == savepoint
    assert latest["completed"]["external_path"].startswith(str(tmp_path / "checkpoints"))

    wanted = {"parallelism": 1, "vertices": {"counts": 3}}
    result(client, "rescale", client.request("POST", f"{client.job}/rescale", wanted))
    assert parallelism(client) == {"numbers": 1, "counts": 3}
    assert sorted(each["attempt"] for each in wait_for_acks(client)) == [0, 1, 1, 1]

    requirements = client.get(f"{client.job}/resource-requirements")
    for requirement in requirements.values():
        requirement["parallelism"]["upperBound"] = 2
    client.request("PUT", f"{client.job}/resource-requirements", requirements)
    while parallelism(client) != {"numbers": 2, "counts": 2}:
        pass

    last = result(client, "savepoints", client.request("POST", f"{client.job}/stop", {}))
    assert last["location"] != savepoint
    while (state := client.get(f"{client.job}/status")["status"]) == "RUNNING":
        pass
    assert state == "FINISHED"
    assert {vertex["status"] for vertex in client.get(client.job)["vertices"]} == {"FINISHED"}
