"""The process that Python workers are forked from, with a limit on the memory of each.

Linux counts the stacks of threads, as large as they may become, so they get smaller ones: that takes a start again.
"""

from __future__ import annotations

import os
import resource
import runpy
import sys

STACK = 1 << 20

if resource.getrlimit(resource.RLIMIT_STACK)[0] != STACK:
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))
    os.execv(sys.executable, [sys.executable, "-m", "limited_daemon", *sys.argv[1:]])
limit = int(os.environ["WORKER_MEMORY_MB"]) << 20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
runpy.run_module("penstock.spark.worker_daemon", run_name="__main__")
