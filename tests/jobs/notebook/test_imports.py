"""IPython is optional: no program imports it that does not load the extension."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["IPython"] = None  # importing it fails
import penstock
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
with MiniCluster():
    table = env.sql_query("SELECT x FROM (VALUES 1, 2) AS t(x)")
    assert "<td>x</td>" in table._repr_html_()
    assert table.to_polars()["x"].to_list() == [1, 2]
"""


def test_programs_and_tables_do_without_ipython() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=240)
