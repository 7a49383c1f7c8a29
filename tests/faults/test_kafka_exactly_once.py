"""Kafka -> keyed state -> Kafka or PostgreSQL, exactly once, whatever dies: the job, its workers and executors, the broker, the database.

The job is `jobs/kafka_ledger.py`. An independent reader watches the output during the whole run, from another process: a consumer
with `read_committed`, or a client of the database. With PENSTOCK_SOAK=1 there are more than 100 faults.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from broker_harness import SystemsRun
from fault_harness import LOCAL, LOCAL_CLUSTER, NewRun

from tests.builders.modes import EPOCHS, PIPELINED, SOAKS, Way
from tests.connectors.conftest import serving
from tools.servers.kafka import KafkaBroker, MortalBroker
from tools.servers.postgres import PostgresServer

WAYS = (Way(EPOCHS, "hashmap"), Way(PIPELINED, "rocksdb"))
DRIVER_KILLS = 6 if SOAKS else 1
WORKER_KILLS = 14 if SOAKS else 2
SERVER_KILLS = 3 if SOAKS else 1
EXECUTOR_KILLS = 6 if SOAKS else 1


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with serving(MortalBroker) as server:
        yield server


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with serving(PostgresServer) as server:
        yield server


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture(params=["to kafka", "to postgres"])
def servers(
    request: pytest.FixtureRequest, broker: KafkaBroker
) -> tuple[KafkaBroker, PostgresServer | None]:
    """The systems of a run, all of them up."""
    database = request.getfixturevalue("database") if request.param == "to postgres" else None
    for server in (broker, database):
        if server is not None and not server.running:
            server.start()
    return broker, database


def strike(run: SystemsRun, what: str, rng: random.Random, seed: str) -> None:
    """Do one thing to a run that goes on, at a moment between two checkpoints or in one."""
    assert run.wait_for_epochs(1), run.story()
    run.pause(rng.uniform(0, 0.5))
    if what == "driver":
        assert run.kill_driver(), f"seed {seed}\n{run.story()}"
        run.start()
    elif what in {"worker", "executor"}:
        victims = run.workers() if what == "worker" else run.executors()
        if not victims or not run.kill(what, rng.choice(victims)):
            strike(run, what, rng, seed)
    else:
        run.restart_server(run.database if what == "postgres" else run.broker)


@pytest.mark.timeout(1500 if SOAKS else 900)
def test_each_message_counts_once_whatever_is_killed(
    way: Way,
    servers: tuple[KafkaBroker, PostgresServer | None],
    new_run: NewRun,
    rng: random.Random,
    seed: str,
) -> None:
    broker, database = servers
    run = new_run(SystemsRun, way=way, master=LOCAL, broker=broker, database=database)
    faults = ["driver"] * DRIVER_KILLS + ["worker"] * WORKER_KILLS + ["kafka"] * SERVER_KILLS
    if database is not None:
        faults += ["postgres"] * SERVER_KILLS
    rng.shuffle(faults)
    run.begin()
    for what in faults:
        strike(run, what, rng, seed)
    run.finish(seed)
    assert len(run.faults) >= len(faults)


def test_each_message_counts_once_when_executors_are_killed(
    broker: KafkaBroker, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    if not broker.running:
        broker.start()
    run = new_run(SystemsRun, way=WAYS[1], master=LOCAL_CLUSTER, broker=broker)
    run.begin()
    for what in ["executor"] * EXECUTOR_KILLS:
        strike(run, what, rng, seed)
    run.finish(seed)
