"""A place on an S3 server for each test."""

from __future__ import annotations

from tests.builders.s3_server import s3, server  # noqa: F401  - fixtures
