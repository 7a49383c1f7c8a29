"""The modules of penstock.table: those that PyFlink has, so that `pyflink.table.X` is one of them, and no others."""

from __future__ import annotations

import pkgutil

import penstock.table

# The modules of pyflink.table whose names Penstock has.
MODULES = {
    "catalog",
    "changelog_mode",
    "data_view",
    "environment_settings",
    "explain_detail",
    "expression",
    "expressions",
    "result_kind",
    "schema",
    "sql_dialect",
    "statement_set",
    "table",
    "table_config",
    "table_descriptor",
    "table_environment",
    "table_result",
    "table_schema",
    "types",
    "udf",
    "window",
}
# PyFlink has their classes in table and table_environment, where they are found as well.
OWN = {"grouped_tables", "stream_table_environment", "table_pipeline"}


def test_only_modules_of_pyflink_lie_in_the_package_of_its_names() -> None:
    assert {each.name for each in pkgutil.iter_modules(penstock.table.__path__)} == MODULES | OWN
