"""The rules of a diagnosis, each with figures that speak for a finding and figures that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.graph.task_id import TaskId
from penstock.jobmanager.diagnosis.diagnose import diagnose
from penstock.jobmanager.diagnosis.findings import Diagnosis, Severity
from penstock.jobmanager.diagnosis.metrics import (
    Backlog,
    CheckpointFigures,
    JobFigures,
    SubtaskCheckpointFigures,
    SubtaskFigures,
    VertexFigures,
)
from penstock.jobmanager.diagnosis.rules.backlog import source_backlog
from penstock.jobmanager.diagnosis.rules.bottleneck import bottleneck
from penstock.jobmanager.diagnosis.rules.checkpoints import (
    failed_checkpoints,
    large_checkpoints,
    no_checkpoints,
    slow_checkpoints,
)
from penstock.jobmanager.diagnosis.rules.late import late_records
from penstock.jobmanager.diagnosis.rules.memory import memory
from penstock.jobmanager.diagnosis.rules.restarts import restarts
from penstock.jobmanager.diagnosis.rules.skew import skew
from penstock.jobmanager.diagnosis.rules.state import growing_state
from penstock.jobmanager.diagnosis.rules.watermarks import held_back
from penstock.jobmanager.metrics.dropped_record_counts import DroppedRecords
from penstock.records.dropped_records import LATE, REASONS
from penstock.runtime.inspection.requests import (
    FrequentKeys,
    ProcessFacts,
    SlotId,
    SlotInfo,
    SplitTime,
    StateUsage,
    TaskDetail,
)

NOW = 1_700_000_000_000
MB = 1 << 20
GB = 1 << 30


def subtask(busy=0.1, waits=0.0, rate=100.0, **more):
    return SubtaskFigures(
        busy=busy, back_pressured=waits, rate=rate, reported=True, **{"records": rate * 100, **more}
    )


def vertex(name, *subtasks, inputs=(), by=(), **more):
    subtasks = subtasks or (subtask(),)
    return VertexFigures(
        id=name,
        name=name,
        parallelism=len(subtasks),
        max_parallelism=128,
        subtasks=subtasks,
        inputs=inputs,
        partitioned_by=by,
        **more,
    )


def job(*vertices, **more):
    return JobFigures(now_ms=NOW, status="RUNNING", vertices=vertices, pipelined=True, **more)


def only(findings):
    (found,) = findings
    return found


def nothing(findings):
    assert list(findings) == []


# Bottleneck


def test_the_vertex_that_makes_others_wait_is_the_bottleneck():
    found = only(
        bottleneck(
            job(
                vertex("source", subtask(busy=0.2, waits=0.7)),
                vertex("parse", subtask(busy=0.99, waits=0.6), inputs=("source",)),
                vertex(
                    "score",
                    subtask(busy=0.97),
                    inputs=("parse",),
                    shares={"Map": 0.71, "Filter": 0.29},
                ),
                vertex("sink", subtask(busy=0.98), inputs=("score",)),
            )
        )
    )
    assert found.title == "'score' is the bottleneck"
    assert found.severity is Severity.WARNING
    assert found.detail == (
        "its busiest subtask is busy 97 % of the time, and upstream vertices are backpressured 70 %; operator 'Map' takes 71 % of its busy time"
    )
    assert "rescale it beyond 1" in found.hint
    assert found.vertex == "score"


def test_a_vertex_that_makes_others_wait_without_working_waits_for_something_itself():
    found = only(
        bottleneck(
            job(
                vertex("source", subtask(waits=0.8)),
                vertex("lookup", subtask(busy=0.3), inputs=("source",)),
            )
        )
    )
    assert "it is not CPU-bound" in found.hint


def test_a_skewed_bottleneck_is_not_to_be_rescaled():
    source = vertex("source", subtask(waits=0.8))
    found = only(bottleneck(job(source, replace(SKEWED, inputs=("source",)))))
    assert "see skew" in found.hint


def test_without_waiting_the_busiest_vertex_counts_if_its_slot_has_no_time_left():
    tasks = (TaskId("source", 0), TaskId("score", 0))
    slots = (SlotInfo(SlotId(0, 0), "here", 1, tasks),)
    shared = job(
        vertex("source", subtask(busy=0.4)),
        vertex("score", subtask(busy=0.55), inputs=("source",)),
        slots=slots,
    )
    found = only(bottleneck(shared))
    assert found.title == "'score' is the bottleneck"
    assert found.severity is Severity.INFO
    assert "its slot 95 %" in found.detail
    nothing(bottleneck(replace(shared, slots=())))


def test_a_job_that_waits_for_records_has_no_bottleneck():
    nothing(bottleneck(job(vertex("source"), vertex("score", inputs=("source",)))))
    nothing(bottleneck(job(VertexFigures("v", "v", 1, 128))))


# Skew

SKEWED = vertex(
    "count",
    subtask(rate=30),
    subtask(busy=0.9, rate=870),
    subtask(rate=100),
    inputs=("source",),
    by=("HASH",),
)


def test_a_subtask_with_most_records_is_named_with_the_key_that_is_why():
    keys = {
        SKEWED.task(0): FrequentKeys(1000, 900, (("'b'", 10),)),
        SKEWED.task(1): FrequentKeys(1000, 80, (("'x'", 701), ("'y'", 200))),
    }
    found = only(skew(job(SKEWED, keys=keys)))
    assert found.title == "subtask 1 of 'count' has 87 % of the records; key 'x' has 61 %"
    assert found.severity is Severity.WARNING
    assert found.subtask == 1
    assert found.figures["keys"] == {"'x'": 0.61, "'y'": 0.174}
    assert (
        found.detail
        == "the fair share of each of 3 subtasks is 33 %; the slot of this one is busy 90 % of the time"
    )
    assert found.hint.startswith("a higher parallelism does not help a single key")


def test_skew_without_a_heavy_key_has_another_hint():
    many = {SKEWED.task(n): FrequentKeys(1000, 900, (("'a'", 3),)) for n in range(3)}
    assert "no single key causes it" in only(skew(job(SKEWED, keys=many))).hint
    few = {SKEWED.task(n): FrequentKeys(1000, 2, ()) for n in range(3)}
    assert "only 6 different keys" in only(skew(job(SKEWED, keys=few))).hint
    assert "aggregate before the exchange" in only(skew(job(SKEWED))).hint


def test_few_samples_blame_no_key():
    keys = {SKEWED.task(1): FrequentKeys(50, 2, (("'x'", 49),))}
    assert "key" not in only(skew(job(SKEWED, keys=keys))).title


def test_skew_of_sources_and_of_other_exchanges_has_hints_of_their_own():
    assert "splits" in only(skew(job(replace(SKEWED, inputs=(), partitioned_by=())))).hint
    assert "rebalance()" in only(skew(job(replace(SKEWED, partitioned_by=("RESCALE",))))).hint


@pytest.mark.parametrize(
    "subtasks",
    [
        (subtask(rate=55), subtask(rate=45)),
        (subtask(rate=60), subtask(rate=40)),
        (subtask(rate=900),),
        (subtask(rate=200), *[subtask(rate=89)] * 9),
        (subtask(rate=5), subtask(rate=1)),
        (subtask(rate=900), SubtaskFigures()),
    ],
    ids=["even", "nearly", "alone", "twice a small part", "few records", "one has not reported"],
)
def test_what_is_even_or_not_known_is_not_skew(subtasks):
    nothing(skew(job(vertex("count", *subtasks, by=("HASH",)))))


def test_a_job_that_stands_still_is_judged_by_what_it_has_counted():
    subtasks = (subtask(rate=0.0, records=100), subtask(rate=0.0, records=9900))
    assert "99 %" in only(skew(job(vertex("count", *subtasks)))).title


# Sources


def test_a_growing_backlog_means_that_a_source_falls_behind():
    source = vertex("clicks", subtask(rate=1000))
    backlogs = {"clicks": Backlog(1_200_000, 1_203_400, 1.0, "records")}
    found = only(source_backlog(job(source, backlogs=backlogs)))
    assert found.title == "source 'clicks' falls behind"
    assert found.detail == "its backlog is 1,203,400 records and grows by 3,400 records per second"
    assert found.severity is Severity.WARNING


def test_a_shrinking_backlog_tells_how_long_it_takes():
    backlogs = {"files": Backlog(400 * MB, 390 * MB, 2.0, "bytes")}
    found = only(source_backlog(job(vertex("files"), backlogs=backlogs)))
    assert found.title == "source 'files' is catching up"
    assert found.detail == (
        "its backlog is 390.0 MB and shrinks by 5.0 MB per second: about 78 s left"
    )
    assert found.severity is Severity.INFO


def test_what_is_read_in_a_moment_is_not_a_backlog():
    backlogs = {"clicks": Backlog(1000, 1900, 1.0, "records")}
    nothing(source_backlog(job(vertex("clicks", subtask(rate=1000)), backlogs=backlogs)))


def test_without_a_backlog_event_time_tells_it_if_the_source_is_held_up():
    behind = subtask(waits=0.6, watermark=NOW - 600_000)
    found = only(source_backlog(job(vertex("clicks", behind))))
    assert found.detail.startswith(
        "its watermark is 10 min behind the clock, and it is backpressured 60 %"
    )
    nothing(source_backlog(job(vertex("clicks", replace(behind, back_pressured=0.2)))))
    nothing(source_backlog(job(vertex("clicks", replace(behind, watermark=NOW - 1000)))))
    nothing(source_backlog(job(vertex("count", behind, inputs=("clicks",)))))


# Checkpoints


def acked(index=0, millis=100, *, delay=0, align=0, sync=0, upload=0, size=MB, written=MB):
    return index, SubtaskCheckpointFigures(millis, delay, align, sync, upload, size, written)


def checkpoint(number=1, millis=100, *subtasks, size=MB, written=MB, **more):
    return CheckpointFigures(
        number,
        NOW - 100_000 + number * 10_000,
        millis,
        size,
        written,
        subtasks={TaskId("count", index): figures for index, figures in subtasks},
        sizes={"count": size},
        **more,
    )


COUNT = vertex("count", inputs=("source",))


def test_failing_checkpoints_are_critical_until_one_is_completed():
    failed = checkpoint(3, failed=True, reason="no space left")
    found = only(failed_checkpoints(job(checkpoints=(checkpoint(2), failed))))
    assert found.severity is Severity.CRITICAL
    assert found.title == "1 of the last 2 checkpoints failed"
    assert found.detail == "the last one was checkpoint 3: no space left; none was completed since"
    later = only(failed_checkpoints(job(checkpoints=(failed, checkpoint(4)))))
    assert later.severity is Severity.INFO
    nothing(failed_checkpoints(job(checkpoints=(checkpoint(4),))))


def test_a_checkpoint_that_ran_out_of_time_is_slow():
    reason = "checkpoint expired before completing: timeout of 600000 ms"
    failed = checkpoint(3, failed=True, reason=reason)
    found = only(failed_checkpoints(job(checkpoints=(failed,), timeout_ms=600_000)))
    assert "execution.checkpointing.timeout" in found.hint


def test_the_parts_that_did_not_acknowledge_an_expired_checkpoint_are_named():
    reason = "checkpoint expired before completing: timeout of 1500 ms\nhint: increase it"
    failed = checkpoint(3, 1500, acked(0), failed=True, reason=reason)
    two = vertex("source", subtask(), subtask())
    found = only(failed_checkpoints(job(COUNT, two, checkpoints=(failed,), timeout_ms=1500)))
    assert found.detail == (
        "the last one was checkpoint 3: checkpoint expired before completing: timeout of 1500 ms; "
        "not acknowledged by 'source' (2 of 2); none was completed since"
    )


@pytest.mark.parametrize(
    ("phase", "detail", "hint"),
    [
        ({"delay": 7000}, "spent 7.0 s until the first barrier arrived", "unaligned"),
        (
            {"align": 7000},
            "spent 7.0 s from the first barrier to the last",
            "slower than the others",
        ),
        ({"sync": 7000}, "while it processed nothing", "state.backend.type"),
        ({"upload": 8000}, "writing to storage, 1.0 MB at 128.0 KB per second", "storage is slow"),
    ],
    ids=["start delay", "alignment", "sync", "async"],
)
def test_a_slow_checkpoint_tells_which_subtask_was_last_and_why(phase, detail, hint):
    slow = checkpoint(2, 8000, acked(0), acked(1, 8000, **phase))
    found = only(slow_checkpoints(job(COUNT, checkpoints=(slow,), interval_ms=10_000)))
    assert found.title == "checkpoints take 8.0 s, 80 % of the interval of 10 s"
    assert found.detail.startswith("subtask 1 of 'count' was the slowest; it spent")
    assert detail in found.detail
    assert hint in found.hint
    assert (found.vertex, found.subtask) == ("count", 1)


def test_barriers_that_overtake_already_need_no_advice_to_do_so():
    slow = checkpoint(2, 8000, acked(0, 8000, delay=7000))
    found = only(
        slow_checkpoints(job(COUNT, checkpoints=(slow,), interval_ms=10_000, unaligned=True))
    )
    assert "unaligned.enabled" not in found.hint
    assert "a call of your code" in found.hint


def test_the_slowest_subtask_of_a_slow_checkpoint_may_have_most_state():
    subtasks = [acked(0), acked(1), acked(2), acked(3, 8000, upload=7900, size=97 * MB)]
    slow = checkpoint(2, 8000, *subtasks)
    found = only(slow_checkpoints(job(COUNT, checkpoints=(slow,), timeout_ms=10_000)))
    assert found.title == "checkpoints take 8.0 s, 80 % of the timeout"
    assert "it has 97 % of all state" in found.detail


def test_what_is_fast_enough_is_not_slow_and_epochs_are_none_of_it():
    quick = checkpoint(2, 900, acked(0, 900))
    nothing(slow_checkpoints(job(COUNT, checkpoints=(quick,), interval_ms=1000)))
    slow = checkpoint(2, 8000, acked(0, 8000))
    nothing(slow_checkpoints(job(COUNT, checkpoints=(slow,), interval_ms=60_000)))
    epochs = replace(job(COUNT, checkpoints=(slow,), interval_ms=10_000), pipelined=False)
    nothing(slow_checkpoints(epochs))
    nothing(slow_checkpoints(job(COUNT, interval_ms=10_000)))


def test_a_large_checkpoint_tells_where_its_bytes_come_from():
    subtasks = [acked(0, size=GB, written=GB)]
    large = checkpoint(2, 100, *subtasks, size=GB, written=GB)
    found = only(large_checkpoints(job(COUNT, checkpoints=(large,))))
    assert found.title == "the last checkpoint wrote 1.0 GB"
    assert found.detail == "it wrote 100 % of the state of 1.0 GB; 100 % of that came from 'count'"
    assert "rocksdb checkpoints are incremental" in found.hint
    rocks = only(large_checkpoints(job(COUNT, checkpoints=(large,), state_backend="rocksdb")))
    assert "longer interval" in rocks.hint
    nothing(large_checkpoints(job(COUNT, checkpoints=(checkpoint(2),))))


def test_a_job_that_runs_for_long_without_checkpoints_is_warned():
    assert only(no_checkpoints(job(running_ms=3_600_000))).severity is Severity.WARNING
    nothing(no_checkpoints(job(running_ms=1000)))
    nothing(no_checkpoints(job(running_ms=3_600_000, interval_ms=1000)))


# Time


def with_splits(*splits, **more):
    source = vertex("clicks")
    return job(source, details={source.task(0): TaskDetail(tuple(splits))}, **more)


def split(name, before_now, *, counts=True):
    moment = -(2**63) if before_now is None else NOW - before_now
    return SplitTime(name, moment, not counts, counts)


def test_the_split_that_is_behind_holds_back_time():
    found = only(held_back(with_splits(split("p0", 1000), split("p3", 241_000))))
    assert found.title == "split 'p3' of source 'clicks' holds back the watermark by 4 min"
    assert found.severity is Severity.INFO
    assert (found.vertex, found.subtask) == ("clicks", 0)
    far = only(held_back(with_splits(split("p0", 1000), split("p3", 3_601_000))))
    assert far.severity is Severity.WARNING


def test_a_split_that_has_had_no_record_holds_time_back_altogether():
    found = only(held_back(with_splits(split("p0", 1000), split("p1", None), split("p2", None))))
    assert found.title == (
        "split 'p1' of source 'clicks' holds back the watermark: it has produced no record"
    )
    assert "with_idleness" in found.hint
    assert found.figures["silent_splits"] == 2


@pytest.mark.parametrize(
    "splits",
    [
        (split("p0", 1000), split("p1", 9000)),
        (split("p0", 1000), split("p1", 9_000_000, counts=False)),
        (split("p0", None), split("p1", None)),
        (split("p0", 9_000_000),),
        (),
    ],
    ids=["near", "idle", "no split has reported", "alone", "none"],
)
def test_time_that_nothing_holds_back_is_not_a_finding(splits):
    nothing(held_back(with_splits(*splits)))


def dropped(metric=LATE, number=250, records=10_000, **more):
    return DroppedRecords("v1", "op1", "window", metric, number, records, **more)


def test_late_records_count_against_all():
    late = dropped(watermark=NOW, lateness_ms=4500)
    found = only(late_records(job(dropped=(late,))))
    assert found.rule == "late-records"
    assert found.title == "'window' dropped 2 % of its records: they are late"
    assert found.detail == (
        "250 of 10,000; up to 4.5 s behind the watermark, the watermark is at 2023-11-14 22:13:20"
    )
    assert found.severity is Severity.WARNING
    assert found.vertex == "v1"
    assert found.figures == {
        "dropped": 250,
        "records": 10_000,
        "watermark": NOW,
        "lateness_ms": 4500,
    }
    one = only(late_records(job(dropped=(dropped(number=1, records=10**6),))))
    assert one.severity is Severity.INFO
    nothing(late_records(job(vertex("window", subtask(rate=0.0)))))


def test_late_partial_aggregates_are_not_taken_for_records():
    found = only(late_records(job(dropped=(dropped(unit="partial aggregates"),))))
    assert found.title == "'window' dropped 2 % of its partial aggregates: they are late"
    assert found.detail == "250 of 10,000, each of several records"


def test_every_reason_to_drop_records_has_a_finding():
    for metric, reason in REASONS.items():
        found = only(late_records(job(dropped=(dropped(metric),))))
        assert found.title.endswith(reason)
        assert found.hint


# State and memory


def growing(*sizes, **more):
    checkpoints = tuple(
        checkpoint(n, size=int(each * MB), written=MB) for n, each in enumerate(sizes, 1)
    )
    count = vertex("count", operators={"op1": "KEYED PROCESS"})
    return job(count, checkpoints=checkpoints, **more)


STATES = {
    TaskId("count", 0): TaskDetail(
        states=(StateUsage("op1", "last", "value", False), StateUsage("op1", "recent", "map", True))
    )
}


def test_state_that_grows_and_never_expires_is_named():
    found = only(growing_state(growing(10, 20, 30, 40, details=STATES)))
    assert found.title == "state grows by 3.5 GB per hour; 'KEYED PROCESS.last' never expires"
    assert found.detail == "from 10.0 MB to 40.0 MB in 30 s; at this rate it doubles in 40 s"
    assert found.severity is Severity.WARNING
    assert found.vertex == "count"
    assert "enable_time_to_live" in found.hint


def test_sizes_that_go_up_and_down_may_grow():
    """As with the hashmap backend, which merges changes now and then."""
    sizes = (31, 18, 33, 19, 35, 20, 37, 22, 40, 23)
    found = only(growing_state(growing(*sizes, details=STATES)))
    assert found.detail.startswith("from 18.0 MB to 20.0 MB in ")


@pytest.mark.parametrize(
    "sizes",
    [
        (10, 50, 90, 10, 50, 90, 10, 50, 90, 10),
        (10, 11, 90, 10, 11, 15, 16, 15, 16, 15),
        (10, 20, 10, 20, 10, 40, 10, 40, 10, 40),
    ],
    ids=["windows", "a lower peak", "higher peaks"],
)
def test_a_size_that_returns_to_where_it_was_does_not_grow(sizes):
    nothing(growing_state(growing(*sizes, details=STATES)))


def test_growth_that_would_take_days_is_only_worth_knowing():
    slow = growing(1000, 1020, 1040, 1060)
    slow = replace(
        slow,
        checkpoints=tuple(
            replace(each, triggered_ms=NOW + n * 3_600_000)
            for n, each in enumerate(slow.checkpoints)
        ),
    )
    found = only(growing_state(slow))
    assert found.severity is Severity.INFO
    assert "never" not in found.title  # no slot could be asked


@pytest.mark.parametrize(
    "sizes",
    [(10, 20, 30), (10, 20, 15, 40), (10, 10, 10, 10), (0.1, 0.2, 0.3, 0.4)],
    ids=["too few", "up and down", "constant", "small"],
)
def test_what_does_not_grow_steadily_is_not_a_finding(sizes):
    nothing(growing_state(growing(*sizes, details=STATES)))


def test_state_that_all_expires_may_grow():
    expiring = {TaskId("count", 0): TaskDetail(states=(StateUsage("op1", "s", "value", True),))}
    nothing(growing_state(growing(10, 20, 30, 40, details=expiring)))


def process(peak, limit, used=None):
    return ProcessFacts(7, used or peak, peak, limit, 5)


@pytest.mark.parametrize(
    ("peak", "severity"), [(850, Severity.WARNING), (990, Severity.CRITICAL)], ids=str
)
def test_a_process_near_its_limit_is_reported_with_the_memory_it_needs(peak, severity):
    processes = {
        "process 7 on a": process(peak * MB, 1000 * MB),
        "process 8 on b": process(2000 * MB, 4000 * MB),
    }
    found = only(memory(job(processes=processes)))
    assert found.severity is severity
    assert found.detail.startswith("process 7 on a:")
    assert "set it to 1.5 GB" in found.hint or "set it to 1.2 GB" in found.hint
    assert "rocksdb" in found.hint


def test_much_state_in_memory_speaks_for_rocksdb():
    large = checkpoint(1, size=2 * GB, written=MB)
    assert "2.0 GB of state" in only(memory(job(checkpoints=(large,)))).title
    nothing(memory(job(checkpoints=(large,), state_backend="rocksdb")))
    roomy = {"process 7 on a": process(100 * MB, None)}
    nothing(memory(job(processes=roomy)))


# All of it


def test_restarts_are_reported_with_the_last_reason():
    found = only(restarts(job(restarts=4, failures=("ValueError: no number",))))
    assert found.severity is Severity.CRITICAL
    assert found.title == "the job was restarted 4 times"
    assert found.detail == "the last failure: ValueError: no number"
    assert only(restarts(job(restarts=1))).severity is Severity.INFO
    nothing(restarts(job()))


def test_what_matters_most_comes_first():
    found = diagnose(
        growing(10, 20, 30, 40, restarts=3, details=STATES), ["memory: no slot answered"]
    )
    assert [each.rule for each in found.findings] == ["restarts", "growing-state"]
    assert (found.health, found.headline) == ("critical", "the job was restarted 3 times")
    assert found.findings[1].severity is Severity.WARNING
    assert found.unknown == ("memory: no slot answered",)


def test_a_healthy_job_has_no_findings_and_one_that_is_over_is_not_judged():
    assert diagnose(job()) == Diagnosis(())
    assert diagnose(job()).headline == "no problems found"
    over = diagnose(replace(job(restarts=9), status="FAILED"))
    assert (over.health, over.unknown) == ("ok", ("the job is failed",))
