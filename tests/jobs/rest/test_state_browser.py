"""The state browser: tables of a job's last checkpoint over HTTP, a page at a time, for those who may change jobs."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.rest.routing.routes import Services
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.rest_server import RestServer
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.rest_fakes import TOKEN, FakeController
from tests.unit.rest.conftest import Client

JOB = "a" * 32


class Spending(KeyedProcessFunction):
    """Remembers a total and the items of each user."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.STRING()))

    def process_element(self, value, ctx):
        user, item, price = value
        self.total.update((self.total.value() or 0) + price)
        self.items.add(item)
        yield user, self.total.value()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The checkpoints of a job that has run."""
    directory = tmp_path_factory.mktemp("checkpoints")
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(directory),
    }
    orders = [(f"user {n % 20}", f"item {n}", n) for n in range(60)] + [(7, "tea", 3)]
    with MiniCluster():
        env = configured(options, 2)
        stream = env.from_collection(orders).uid("orders")
        stream.key_by(lambda order: order[0]).process(Spending()).uid("spending").print()
        env.execute("spending")
    (job,) = directory.iterdir()
    return job


@pytest.fixture
def controller(directory):
    controller = FakeController(job_id=JOB)
    view = controller.view
    controller.directory = str(directory)
    controller.view = lambda: replace(view(), checkpoint_directory=controller.directory)
    return controller


@pytest.fixture
def ask(controller):
    """A client of a server that has the job."""
    services = Services()
    services.jobs.publish(controller)
    server = RestServer(services, TOKEN, limits=RequestLimits(processor_share=1.0))
    server.start()
    client = Client(server)

    def ask(path="", token=TOKEN, **query):
        text = f"?{urlencode(query)}" if query else ""
        return client("GET", f"/v1/penstock/jobs/{JOB}/state{path}{text}", token=token)

    yield ask
    server.close()


def test_all_states_of_all_operators_are_listed(ask):
    status, content = ask()
    assert status == 200
    assert content["checkpoint"]["id"] == 1
    (spending,) = [each for each in content["operators"] if each["uid"] == "spending"]
    states = {each["name"]: each for each in spending["states"] if not each["internal"]}
    assert set(states) == {"total", "items"}
    assert states["total"] | {"size": 0} == {
        "name": "total", "table": "state/total", "kind": "value", "type": "Long", "expires": False,
        "scope": None, "keyed": True, "entries": 21, "size": 0, "internal": False,
    }  # fmt: skip


def test_a_table_is_read_a_page_at_a_time(ask):
    rows = []
    for offset in range(0, 30, 10):
        status, page = ask("/spending", table="total", offset=offset, limit=10)
        assert status == 200
        assert page["columns"] == ["key", "value"]
        assert page["more"] is (offset < 20)
        rows += page["rows"]
    totals = {f"user {user}": sum(range(user, 60, 20)) for user in range(20)} | {7: 3}
    assert dict(rows) == totals
    assert len(rows) == 21


@pytest.mark.parametrize("key", ["user 3", "'user 3'"])
def test_one_key_is_looked_up_by_its_text_or_as_python_writes_it(ask, key):
    _, page = ask("/spending", table="items", key=key)
    assert page["rows"] == [["user 3", ["item 3", "item 23", "item 43"]]]
    _, exploded = ask("/spending", table="items", key=key, explode="true", limit=2)
    assert exploded["columns"] == ["key", "position", "value"]
    assert exploded["rows"] == [["user 3", 0, "item 3"], ["user 3", 1, "item 23"]]
    assert exploded["more"] is True


def test_a_key_that_is_a_number_is_found_and_one_that_is_not_there_is_not(ask):
    assert ask("/spending", table="total", key="7")[1]["rows"] == [[7, 3]]
    assert ask("/spending", table="total", key="nobody")[1]["rows"] == []


@pytest.mark.parametrize(
    "key",
    [
        "[1]",
        "{[]: 1}",
        "(" * 300,
        "9" * 5000,
        "[1e999]",
        "__import__('os')",
        "\0",
        "",
        "1j",
        "\ud7ff",
    ],
    ids=range(10),
)
def test_a_key_that_can_be_none_is_found_nowhere_and_does_no_harm(ask, key):
    status, page = ask("/spending", table="total", key=key)
    assert (status, page["rows"]) == (200, [])


def test_offsets_of_a_source_and_timers_are_tables_too(ask):
    _, offsets = ask("/orders", table="offsets")
    assert "position" in offsets["columns"]
    assert len(offsets["rows"]) == 1
    _, timers = ask("/spending", table="timers")
    assert timers["rows"] == []


def test_state_cannot_be_read_without_the_token(ask):
    assert ask(token=None)[0] == 401
    assert ask("/spending", token="wrong", table="total")[0] == 401


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"limit": "0"}, 400),
        ({"limit": "1001"}, 400),
        ({"offset": "-1"}, 400),
        ({"limit": "many"}, 400),
        ({"limit": "9" * 5000}, 400),
        ({"explode": "perhaps"}, 400),
        ({"table": "nothing"}, 404),
        ({"table": ""}, 404),
    ],
    ids=str,
)
def test_unknown_operators_and_tables_are_rejected(ask, query, status):
    found, content = ask("/spending", **({"table": "total"} | query))
    assert found == status
    assert content["errors"]


def test_an_operator_that_is_not_there_is_refused_with_the_nearest_name(ask):
    status, content = ask("/spendign", table="total")
    assert status == 404
    assert "spending" in " ".join(content["errors"])


def test_a_job_without_checkpoints_has_no_state_to_show(ask, controller):
    controller.directory = None
    status, content = ask()
    assert status == 404
    assert content["errors"][0] == "job 'clicks' has no checkpoint directory"
