"""Spark: checkpoints as DataFrames, and data sources that are written for PySpark. Beyond PyFlink."""

from __future__ import annotations

from penstock.connectors.spark.data_source import SparkDataSource
from penstock.connectors.spark.sink import SparkSink

__all__ = ["SparkDataSource", "SparkSink"]
