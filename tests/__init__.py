"""The tests of Penstock."""

import os
import sys

# Containers often tell Python to write no bytecode. Every worker would then compile all tests and all of penstock, and so would every
# process that a test starts: collection alone took three times as long.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
