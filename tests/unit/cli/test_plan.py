"""`penstock plan`: what a program would run, as tree, JSON and picture; nothing runs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from penstock.cli import main

PROGRAM = """
import sys
from pathlib import Path
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
left = env.from_collection([1, 2]).map(lambda n: n).name("left & right")
right = env.from_collection([3]).map(lambda n: n).slot_sharing_group("other")
summed = left.union(right).key_by(lambda n: n % 2).reduce(lambda a, b: a + b).uid("sum")
summed.map(lambda n: Path(sys.argv[1]).touch()).print()
try:
    env.execute("demo")
except Exception:
    print("taken")
Path(sys.argv[1]).touch()
"""
TREE = """\
demo: STREAMING, 5 vertices, 8 subtasks, 4 slots
├─ [1] Source: Collection Source  x1
│  └─ REBALANCE → [2] left & right  x2
│     └─ HASH → [5] Reduce -> Map -> Sink: Print to Std. Out  x2  (uid sum)
└─ [3] Source: Collection Source  x1
   └─ REBALANCE → [4] Map  x2  (group other)
      └─ HASH → [5] above
"""


@pytest.fixture
def plan(write, tmp_path, capsys):
    def plan(*options):
        ran = tmp_path / "ran"
        assert main(["plan", *options, write(PROGRAM), str(ran)]) == 0
        assert not ran.exists()
        output = capsys.readouterr()
        assert output.err == ""
        return output.out

    return plan


def test_the_tree_has_each_vertex_once(plan):
    assert plan() == TREE


def test_the_json_has_what_flinks_visualizer_reads_and_the_vertices(plan):
    shown = json.loads(plan("--json"))
    assert shown["name"] == "demo"
    assert shown["slots"] == 4
    assert [node["type"] for node in shown["nodes"]][:2] == [
        "Source: Collection Source",
        "left & right",
    ]
    assert [vertex["parallelism"] for vertex in shown["job_graph"]["vertices"]] == [1, 2, 1, 2, 2]
    assert json.loads(plan("-f", "json")) == shown


def test_the_picture_has_all_vertices_and_edges_apart_from_each_other(plan, tmp_path):
    file = tmp_path / "plan.svg"
    assert plan("-f", "svg", "-o", str(file)) == ""
    space = "{http://www.w3.org/2000/svg}"
    picture = ET.parse(file).getroot()
    boxes = [
        tuple(int(box.get(name)) for name in ("x", "y", "width", "height"))
        for box in picture.iter(f"{space}rect")
    ]
    assert len(boxes) == 5
    assert len(list(picture.iter(f"{space}path"))) == 4 + 1  # with the tip of arrows
    for n, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, _, _ in boxes[n + 1 :]:
            assert not (x <= other_x < x + width and y <= other_y < y + height)
    assert "left & right" in {text.text for text in picture.iter(f"{space}text")}


def test_a_program_that_executes_nothing_or_fails_before_is_reported(write, capsys, tmp_path):
    assert main(["plan", write("print('only this')")]) == 2
    assert "does not execute a job" in capsys.readouterr().err
    assert main(["plan", write("raise ValueError('mine')")]) == 1
    assert "ValueError: mine" in capsys.readouterr().err
    assert main(["plan", str(tmp_path / "gone.py")]) == 2


TABLES = """
CREATE TABLE orders (id BIGINT, customer STRING) WITH ('connector' = 'datagen');
CREATE TABLE counts (customer STRING, n BIGINT, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'print');
"""
COUNTED = "INSERT INTO counts SELECT customer, COUNT(*) FROM orders GROUP BY customer;\n"


@pytest.mark.parametrize("form", ["tree", "svg"])
def test_the_plan_of_a_file_of_sql_is_that_of_its_first_job(tmp_path, capsys, form):
    script = tmp_path / "counts.sql"
    script.write_text(TABLES + COUNTED + "SELECT missing;")
    assert main(["plan", "-f", form, "-p", "2", str(script)]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    if form == "svg":
        picture = ET.fromstring(output.out)
        shown = "".join(picture.itertext())
        assert "Source: orders" in shown
        assert "GlobalGroupAggregate" in shown
    else:
        first, source, counted = output.out.splitlines()
        assert first.endswith("counts: STREAMING, 2 vertices, 4 subtasks, 2 slots")
        assert "Source: orders" in source
        assert "HASH → [2] GlobalGroupAggregate" in counted


def test_a_file_of_sql_that_is_wrong_has_no_plan(tmp_path, capsys):
    script = tmp_path / "wrong.SQL"
    script.write_text(TABLES + "SELECT custmer FROM orders;")
    assert main(["plan", str(script)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "did you mean 'customer'?" in output.err
    assert "starts in line 4" in output.err
    assert "Traceback" not in output.err
