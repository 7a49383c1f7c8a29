"""Types, rows, configuration, time and watermarks: PyFlink's `pyflink.common`."""

from __future__ import annotations

from penstock.common.completable_future import CompletableFuture
from penstock.common.execution_config import ExecutionConfig
from penstock.common.input_dependency_constraint import InputDependencyConstraint
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from penstock.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.common.serializer import TypeSerializer
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row, RowKind
from penstock.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    WatermarkStrategy,
)
from penstock.options.config_options import ConfigOption, ConfigOptions
from penstock.options.configuration import Configuration
from penstock.time.durations import Duration, Instant, Time

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]
