"""What is left of the text of a Java exception: the cause, which is at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.jobmanager.failover.java_errors import explain_java

PACKAGE = Path(penstock.__file__).parent
WORKER = f"""\
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/venv/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
  File "/venv/site-packages/pyspark/core/rdd.py", line 703, in func
    return f(iterator)
           ^^^^^^^^^^^
  File "{PACKAGE}/runtime/task/epoch_slot.py", line 75, in run_slot
    for _ in slot_task.run(rows):
  File "/home/ann/job.py", line 6, in boom
    pickle.dumps(threading.Lock())
TypeError: cannot pickle '_thread.lock' object
 SQLSTATE: 38000
"""
FRAMES = "".join(f"\tat org.apache.spark.Some$Thing{n}.run(Thing.scala:{n})\n" for n in range(30))
CRASHED = f"""\
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 1) (10.0.0.1 executor driver): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
{FRAMES}Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
\t... 22 more

Driver stacktrace:
"""


def test_of_an_exception_in_a_worker_the_users_frames_are_left():
    assert explain_java(WORKER).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/home/ann/job.py", line 6, in boom',
        "    pickle.dumps(threading.Lock())",
        "TypeError: cannot pickle '_thread.lock' object",
    ]


def test_what_comes_after_the_traceback_is_left_out():
    assert explain_java(WORKER + FRAMES) == explain_java(WORKER)


def test_a_traceback_without_a_frame_of_the_user_is_its_last_line():
    text = WORKER.replace("/home/ann", str(PACKAGE))
    assert explain_java(text) == "TypeError: cannot pickle '_thread.lock' object"


def test_of_chained_exceptions_each_is_shown():
    second = WORKER.splitlines()[1:-1]
    text = "\n".join(
        [
            *WORKER.splitlines()[:-1],
            "During handling of the above exception, another exception occurred:",
            "Traceback (most recent call last):",
            *second[:-1],
            "ValueError: and then this",
        ]
    )
    explained = explain_java(text)
    assert explained.count("Traceback") == 2
    assert explained.index("cannot pickle") < explained.index("another exception")
    assert explained.endswith("ValueError: and then this")


def test_of_any_other_exception_what_happened_and_why_is_left():
    assert explain_java(CRASHED).splitlines() == [
        "Python worker exited unexpectedly (crashed)",
        "Caused by: java.io.EOFException",
    ]


@pytest.mark.parametrize("depth", [1, 5])
def test_the_last_causes_are_shown_however_deep_they_are(depth):
    causes = "".join(f"Caused by: java.lang.Error: cause {n}\n{FRAMES}" for n in range(depth))
    explained = explain_java(f"java.lang.Exception: it failed\n{FRAMES}{causes}")
    assert explained.startswith("java.lang.Exception: it failed\n")
    assert explained.endswith(f"Caused by: java.lang.Error: cause {depth - 1}")
    assert len(explained.splitlines()) <= 3
