"""The environment: its settings, its sources, and what it hands to the executor."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from penstock.common import Configuration, Duration, RestartStrategies, Row, Types
from penstock.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    RuntimeExecutionMode,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from penstock.datastream._environment_settings import EnvironmentConfiguration
from penstock.datastream.functions import SinkFunction, SourceFunction
from penstock.errors import (
    ArgumentError,
    ConfigurationError,
    InvalidProgramError,
    JobExecutionError,
)
from penstock.graph.operator_specs import SinkSpec, SourceSpec
from tests.builders.cases import check_all
from tests.unit.datastream.conftest import PathSink, QuietSource


def test_every_environment_is_a_new_one():
    first = StreamExecutionEnvironment.get_execution_environment()
    second = StreamExecutionEnvironment.get_execution_environment()
    first.set_parallelism(7)
    assert first is not second
    assert first.get_parallelism() == 7
    assert second.get_parallelism() == (os.cpu_count() or 1)


def test_the_parallelism_comes_from_the_configuration():
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"parallelism.default": "3"})
    )
    assert env.get_parallelism() == 3


def test_the_default_parallelism_counts_for_all_environments(env, monkeypatch):
    monkeypatch.setattr(EnvironmentConfiguration, "_default_local_parallelism", None)
    env.set_default_local_parallelism(5)
    assert env.get_default_local_parallelism() == 5
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 5


SETTINGS = [
    pytest.param(lambda e: e.set_parallelism(4), "parallelism.default", "4", id="parallelism"),
    pytest.param(
        lambda e: e.set_max_parallelism(64), "pipeline.max-parallelism", "64", id="max parallelism"
    ),
    pytest.param(
        lambda e: e.set_runtime_mode(RuntimeExecutionMode.BATCH),
        "execution.runtime-mode",
        "BATCH",
        id="runtime mode",
    ),
    pytest.param(
        lambda e: e.set_buffer_timeout(50),
        "execution.buffer-timeout.interval",
        "50 ms",
        id="buffer timeout",
    ),
    pytest.param(
        lambda e: e.disable_operator_chaining(),
        "pipeline.operator-chaining.enabled",
        "false",
        id="chaining",
    ),
    pytest.param(
        lambda e: e.enable_checkpointing(1500),
        "execution.checkpointing.interval",
        "1500 ms",
        id="checkpointing",
    ),
    pytest.param(
        lambda e: e.enable_checkpointing(1500, CheckpointingMode.AT_LEAST_ONCE),
        "execution.checkpointing.mode",
        "AT_LEAST_ONCE",
        id="checkpointing mode",
    ),
    pytest.param(
        lambda e: e.set_state_backend(EmbeddedRocksDBStateBackend()),
        "state.backend.type",
        "rocksdb",
        id="rocksdb",
    ),
    pytest.param(
        lambda e: e.set_state_backend(HashMapStateBackend()),
        "state.backend.type",
        "hashmap",
        id="hashmap",
    ),
    pytest.param(
        lambda e: e.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 250)),
        "restart-strategy.fixed-delay.delay",
        "250 ms",
        id="restart strategy",
    ),
    pytest.param(
        lambda e: e.set_default_savepoint_directory("file:///savepoints"),
        "execution.checkpointing.savepoint-dir",
        "file:/savepoints",
        id="savepoint directory",
    ),
    pytest.param(
        lambda e: [e.add_python_file(__file__), e.add_python_file(Path(__file__).parent)],
        "python.files",
        f"{__file__},{Path(__file__).parent}",
        id="python files",
    ),
    pytest.param(
        lambda e: e.set_python_executable(sys.executable),
        "python.executable",
        sys.executable,
        id="python executable",
    ),
    pytest.param(
        lambda e: [
            e.register_cached_file(__file__, "x"),
            e.register_cached_file(f"file://{__file__}", "y", True),
            e.register_cached_file("hdfs://host/c", "z"),
        ],
        "pipeline.cached-files",
        f"name:x,path:{__file__};name:y,path:file://{__file__},executable:true;name:z,path:hdfs://host/c",
        id="cached files",
    ),
]


@pytest.mark.parametrize(("set_it", "key", "text"), SETTINGS)
def test_settings_are_options_of_the_configuration(env, set_it, key, text):
    set_it(env)
    assert env.get_configuration().to_dict()[key] == text
    # What was set can be given to another environment.
    again = StreamExecutionEnvironment.get_execution_environment(env.get_configuration())
    assert again.get_configuration() == env.get_configuration()


@pytest.mark.parametrize("path", ["/not/there", "file:///not/there", "file://localhost/not/there"])
def test_missing_cached_file_is_rejected_at_the_call(env, path):
    with pytest.raises(
        ArgumentError, match=f"'{path}' does not exist\\n.*its absolute path is /not/there"
    ):
        env.register_cached_file(path, "x")
    assert "pipeline.cached-files" not in env.get_configuration().to_dict()


def test_host_of_a_local_path_is_dropped(env):
    env.set_default_savepoint_directory("file://localhost/savepoints/")
    assert env.get_default_savepoint_directory() == "file://localhost/savepoints"


def test_getters_return_defaults_without_settings(env):
    assert env.get_max_parallelism() == -1
    assert env.get_buffer_timeout() == 100
    assert env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert env.get_checkpoint_interval() == -1
    assert not env.get_checkpoint_config().is_checkpointing_enabled()
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.EXACTLY_ONCE
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_default_savepoint_directory() is None
    assert env.get_state_backend() is None


def test_a_changelog_backend_is_noted_and_refused_when_the_program_is_executed(env, executor):
    assert env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled()
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"state\.changelog\.enabled"):
        env.execute()
    assert env.enable_changelog_state_backend(False).execute_async() is not None


def test_options_that_were_written_into_the_configuration_are_checked_by_execute(env, executor):
    env.get_configuration().set_string("taskmanager.memory.proces.size", "1 gb")
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"unknown option '.*proces\.size'"):
        env.execute()


def test_getters_return_configured_values(env):
    env.configure(
        Configuration.from_dict(
            {
                "execution.checkpointing.interval": "10 s",
                "execution.buffer-timeout.enabled": "false",
                "pipeline.max-parallelism": "256",
                "state.changelog.enabled": "false",
            }
        )
    )
    assert env.get_checkpoint_interval() == 10_000
    assert env.get_buffer_timeout() == -1
    assert env.get_max_parallelism() == 256
    assert env.is_changelog_state_backend_enabled() is False
    assert env.get_config().get_max_parallelism() == 256


@pytest.mark.parametrize(
    "strategy",
    [
        RestartStrategies.no_restart(),
        RestartStrategies.fixed_delay_restart(3, 100),
        RestartStrategies.failure_rate_restart(2, 60_000, 100),
        RestartStrategies.exponential_delay_restart(10, 100, 2.0, 1000, 0.2, 5),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_a_restart_strategy_comes_back_from_the_options(env, strategy):
    assert env.set_restart_strategy(strategy).get_restart_strategy() == strategy


def test_the_fall_back_strategy_takes_the_setting_back(env):
    default = env.get_restart_strategy()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 100))
    env.set_restart_strategy(RestartStrategies.fall_back_restart())
    assert env.get_restart_strategy() == default


CHECKPOINT_SETTINGS = [
    ("checkpoint_interval", 20, 20),
    ("checkpointing_mode", CheckpointingMode.AT_LEAST_ONCE, CheckpointingMode.AT_LEAST_ONCE),
    ("checkpoint_timeout", 30_000, 30_000),
    ("min_pause_between_checkpoints", 7, 7),
    ("max_concurrent_checkpoints", 2, 2),
    ("tolerable_checkpoint_failure_number", 3, 3),
    (
        "externalized_checkpoint_retention",
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
    ),
    ("aligned_checkpoint_timeout", Duration.of_seconds(3), Duration.of_seconds(3)),
    ("alignment_timeout", Duration.of_seconds(4), Duration.of_seconds(4)),
]


@pytest.mark.parametrize(
    ("name", "value", "expected"), CHECKPOINT_SETTINGS, ids=[row[0] for row in CHECKPOINT_SETTINGS]
)
def test_checkpoint_settings_can_be_set_and_read(env, name, value, expected):
    config = env.get_checkpoint_config()
    assert getattr(config, f"set_{name}")(value) is config
    assert getattr(config, f"get_{name}")() == expected
    fresh = StreamExecutionEnvironment.get_execution_environment(env.get_configuration())
    assert getattr(fresh.get_checkpoint_config(), f"get_{name}")() == expected


def test_checkpoint_switches(env):
    config = env.get_checkpoint_config()
    assert config.enable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert config.set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
    assert config.is_fail_on_checkpointing_errors()
    assert not config.set_fail_on_checkpointing_errors(False).is_fail_on_checkpointing_errors()
    assert not config.is_externalized_checkpoints_enabled()
    config.set_externalized_checkpoint_retention(
        ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    )
    assert config.is_externalized_checkpoints_enabled()


def test_a_checkpoint_storage_sets_the_directory(env):
    config = env.get_checkpoint_config()
    config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///a/"))
    assert env.get_configuration().to_dict()["execution.checkpointing.dir"] == "file:/a"
    config.set_checkpoint_storage_dir("file:///b")
    assert env.get_configuration().to_dict()["execution.checkpointing.dir"] == "file:/b"
    assert config.get_checkpoint_storage().get_checkpoint_path() == "file:/b"


def test_jars_are_ignored_with_a_warning(env):
    with pytest.warns(UserWarning, match=r"add_jars\('file:///x.jar'\) is ignored"):
        env.add_jars("file:///x.jar")
    with pytest.warns(UserWarning, match="add_classpaths"):
        env.add_classpaths("file:///x")


def test_slot_sharing_groups_are_registered_by_name(env, stream):
    group = SlotSharingGroup.builder("io").set_cpu_cores(1.0).set_task_heap_memory("64 mb").build()
    assert env.register_slot_sharing_group(group) is env
    assert group.get_task_heap_memory().get_mebi_bytes() == 64


RESOURCES = {
    "cores": (lambda b: b.set_cpu_cores(999.0), {}, "999 cores", "spark.executor.cores"),
    "memory": (
        lambda b: b.set_managed_memory("500 tb"),
        {},
        "524288001 mb",
        "spark.executor.memory",
    ),
    "cores of a local master": (
        lambda b: b.set_cpu_cores(3.0),
        {"spark.master": "local[2]"},
        "3 cores",
        "",
    ),
    "slots of a taskmanager": (
        lambda b: b.set_cpu_cores(3.0),
        {"taskmanager.numberOfTaskSlots": 2},
        "3 cores",
        "",
    ),
    "cores of executors": (
        lambda b: b.set_cpu_cores(5.0),
        {"spark.master": "spark://host:7077", "spark.executor.cores": "4"},
        "5 cores",
        "",
    ),
    "memory of executors": (
        lambda b: b.set_task_heap_memory("3 gb"),
        {"spark.master": "yarn", "spark.executor.memory": "2g"},
        "3 gb",
        "",
    ),
    "GPUs": (
        lambda b: b.set_external_resource("gpu", 1.0),
        {},
        "1 of gpu",
        "spark.executor.resource.gpu.amount",
    ),
}


def test_slots_that_no_taskmanager_can_have_are_refused(monkeypatch, executor):
    monkeypatch.delenv("SPARK_MASTER", raising=False)

    def check(case):
        ask, given, wanted, hint = case
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
        builder = SlotSharingGroup.builder("heavy").set_cpu_cores(0.5).set_task_heap_memory_mb(1)
        mapped = env.from_collection([1]).map(str)
        mapped.slot_sharing_group(ask(builder).build()).print()
        with pytest.raises(InvalidProgramError, match="slot sharing group 'heavy' needs") as caught:
            env.execute()
        assert wanted in caught.value.message
        assert hint in caught.value.hint

    check_all(RESOURCES, check)


def test_slots_that_a_taskmanager_can_have_are_not_reserved_which_a_line_says(
    env, executor, caplog
):
    group = SlotSharingGroup.builder("small").set_cpu_cores(0.5).set_task_heap_memory_mb(1).build()
    unused = SlotSharingGroup.builder("unused").set_cpu_cores(999).set_task_heap_memory_mb(1)
    env.register_slot_sharing_group(unused.build())
    env.from_collection([1]).map(str).slot_sharing_group(group).print()
    env.execute_async()
    assert "slot sharing group 'small': its resources are checked and not reserved" in caplog.text
    assert "unused" not in caplog.text


# Sources


def test_a_collection_is_read_by_one_subtask(env):
    source = env.from_collection([1, 2], Types.INT()).transformation
    assert (source.kind, source.name, source.output_type) == (
        "source",
        "Collection Source",
        Types.INT(),
    )
    assert (source.parallelism, source.parallelism_fixed) == (1, True)
    assert isinstance(source.spec, SourceSpec)


@pytest.mark.parametrize(
    ("elements", "kind", "expected"),
    [
        pytest.param(
            [(1, "a")],
            Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]),
            [Row(id=1, name="a")],
            id="tuples become named rows",
        ),
        pytest.param(
            [[1, "a"]], Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a")], id="tuples"
        ),
        pytest.param([1], Types.DOUBLE(), [1.0], id="widened numbers"),
        pytest.param((x for x in (1, 2)), None, [1, 2], id="any iterable"),
        pytest.param([], Types.INT(), [], id="empty with a type"),
    ],
)
def test_collection_elements_are_converted_to_their_type(env, elements, kind, expected):
    source = env.from_collection(elements, kind).transformation.spec.source
    (split,) = source.create_enumerator(1).discover()
    from penstock.connectors.base.source import ReadLimits

    read = source.create_reader().read(split, split.start, ReadLimits())
    assert [record for batch in read for record in batch.records] == expected


def test_old_sources_and_sinks_wrap_new_ones(env):
    source, sink = QuietSource(), PathSink()
    stream = env.add_source(SourceFunction(source), "old", Types.INT())
    assert stream.transformation.spec.source is source
    assert (stream.get_name(), stream.get_type()) == ("old", Types.INT())
    assert env.add_source(source).get_name() == "Custom Source"
    assert stream.add_sink(SinkFunction(sink)).transformation.spec == SinkSpec(sink)
    assert stream.add_sink(sink).transformation.spec == SinkSpec(sink)


def test_a_plain_function_can_be_a_sink(stream):
    seen = []
    assert stream.add_sink(seen.append).transformation.spec.sink.function == seen.append


def test_a_text_file_is_a_stream_of_text(env, tmp_path):
    lines = env.read_text_file(str(tmp_path))
    assert lines.get_type() == Types.STRING()
    assert isinstance(lines.transformation.spec, SourceSpec)


# Execution


def test_execute_hands_over_the_program_and_forgets_it(env, stream, executor):
    mapped = stream.map(str)
    sink = mapped.sink_to(PathSink())
    env.set_parallelism(3).set_max_parallelism(12).disable_operator_chaining()
    result = env.execute("my job")
    ((transformations, settings, configuration, name),) = executor.submitted
    assert transformations == (mapped.transformation, sink.transformation)
    assert (settings.job_name, settings.parallelism, settings.max_parallelism) == ("my job", 3, 12)
    assert (settings.chaining_enabled, settings.runtime_mode) == (False, "STREAMING")
    assert name == "my job"
    assert configuration == env.get_configuration()
    assert configuration is not env.get_configuration()
    assert result.get_job_id() == executor.controllers[0].job_id
    with pytest.raises(RuntimeError, match="no operators defined"):
        env.execute()


def test_operators_without_a_sink_are_executed_with_a_warning(env, stream, executor, caplog):
    mapped = stream.map(str)
    env.execute("counts")
    assert executor.submitted[0][0] == (mapped.transformation,)
    assert "job 'counts' has no sink" in caplog.text


def test_a_job_with_a_sink_gives_no_warning(env, stream, executor, caplog):
    stream.map(str)
    stream.print()
    env.execute()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("given", "configured", "expected"),
    [
        ("given", "configured", "given"),
        (None, "configured", "configured"),
        (None, None, "Flink Streaming Job"),
    ],
)
def test_the_job_name_is_the_given_one_the_configured_one_or_flinks(
    env, stream, executor, given, configured, expected
):
    if configured:
        env.configure(Configuration.from_dict({"pipeline.name": configured}))
    stream.map(str)
    env.execute(given)
    assert executor.submitted[0][3] == expected


def test_execute_async_returns_before_the_job_ends(env, stream, executor):
    executor.on_submit = lambda controller, transformations: None
    stream.map(str)
    client = env.execute_async("later")
    future = client.get_job_execution_result()
    assert not future.done()
    executor.controllers[0].succeed()
    assert future.result(1).get_job_id() == client.get_job_id()


def test_the_error_of_a_job_is_raised_by_execute(env, stream, executor):
    error = JobExecutionError("the job failed")
    executor.on_submit = lambda controller, _: controller.result.set_exception(error)
    stream.map(str)
    with pytest.raises(JobExecutionError) as caught:
        env.execute()
    assert caught.value is error


def test_the_plan_is_flinks_json_and_leaves_the_program(env, stream):
    env.set_parallelism(2)
    stream.map(str).key_by(len).sum().print()
    plan = json.loads(env.get_execution_plan())
    assert [(node["type"], node["pact"], node["parallelism"]) for node in plan["nodes"]] == [
        ("Source: quiet", "Data Source", 2),
        ("Map", "Operator", 2),
        ("Sum", "Operator", 2),
        ("Sink: Print to Std. Out", "Data Sink", 2),
    ]
    assert [p["ship_strategy"] for n in plan["nodes"] for p in n.get("predecessors", [])] == [
        "FORWARD",
        "HASH",
        "FORWARD",
    ]
    assert env.get_execution_plan() == env.get_execution_plan()


def test_a_closed_environment_has_no_program(env, stream):
    with env:
        stream.map(str)
    with pytest.raises(RuntimeError, match="no operators defined"):
        env.execute()
