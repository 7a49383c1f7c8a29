"""Ctrl-C ends a program cleanly and says how to go on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

TIMEOUT_S = 240
PROGRAM = """
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource

options = {{"execution.checkpointing.dir": {directory!r}, "execution.checkpointing.interval": "300 ms"}}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
numbers = DataGeneratorSource(lambda index: index, rate_per_second=100)
stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
stream.key_by(lambda number: number % 3).sum().add_sink(lambda value: None)
env.execute("endless")
"""


def heed_interrupts() -> None:
    """Undo what a shell does to commands in the background: they, and all below them, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupted_program_says_how_to_go_on_and_shows_no_traceback(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(directory=str(tmp_path / "checkpoints")))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not list(tmp_path.glob("checkpoints/*/chk-*/_metadata")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no checkpoint"
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "Traceback" not in out + err
    found = re.search(r"to resume it, set execution.state-recovery.path to (\S+)", err)
    assert found is not None
    assert list(Path(found.group(1)).glob("chk-*/_metadata"))
