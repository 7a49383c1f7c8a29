"""Programs as files that the `penstock` command runs."""

from __future__ import annotations

import pytest

from penstock.cli import main


@pytest.fixture
def write(tmp_path):
    def write(text, name="job.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def run(script, *arguments, options=()):
    return main(["run", "--no-spark", *options, script, *arguments])
