"""Write the list of Flink's options, which the package checks configurations against: key, type, default, choices, older keys.

    python tools/gen_flink_options.py PYFLINK_DIRECTORY

The directory is that of an installed `apache-flink-libraries` (`site-packages/pyflink`): its `lib`, `opt` and `plugins` have all jars. The
constants of type ConfigOption are read by tools/ListFlinkOptions.java. Options of connectors, formats and catalogs are left out: they belong to
the WITH clause of a table. Options that all reporters have get the prefix under which a configuration has them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "penstock" / "options" / "flink_options.tsv"
JARS = ("lib", "opt", "plugins")
_FLINK = "org.apache.flink."
# Classes whose options belong to a WITH clause, a hint, or to Flink's own objects in memory.
_LEFT_OUT = tuple(
    _FLINK + name
    for name in (
        "connector.",
        "externalresource.",
        "formats.",
        "metrics.",
        "streaming.api.graph.",
        "table.api.config.LookupJoinHintOptions",
        "table.api.config.MLPredictRuntimeConfigOptions",
        "table.api.config.VectorSearchRuntimeConfigOptions",
        "table.catalog.",
        "table.connector.",
        "table.factories.",
        "table.module.",
        "table.planner.",
        "table.runtime.",
        "table.secret.",
        "table.sinks.",
        "table.utils.python.",
    )
)
# What such classes have besides: options of a configuration.
_KEPT = frozenset(
    {
        "sql-gateway.endpoint.type",
        "table.catalog-store.kind",
        "table.exec.dynamic-filtering.threshold",
        "table.secret-store.kind",
        "workflow-scheduler.type",
    }
)
# In these classes, keys without the first part are relative to a reporter.
_RELATIVE_OWNERS = {
    _FLINK + "configuration.MetricOptions": ("metrics.", "metrics.reporter.<name>."),
    _FLINK + "configuration.TraceOptions": ("traces.", "traces.reporter.<name>."),
    _FLINK + "configuration.EventOptions": ("events.", "events.reporter.<name>."),
}
_RELATIVE_KEYS = {"enabled": "security.delegation.token.provider.<name>.enabled"}
_TYPES = {
    "String": "STRING", "Integer": "INT", "Long": "LONG", "Double": "DOUBLE", "Float": "DOUBLE", "Boolean": "BOOLEAN",
    "Duration": "DURATION", "MemorySize": "MEMORY", "Map": "MAP",
}  # fmt: skip


def rows(output: str) -> list[tuple[str, ...]]:
    """Return the rows of the list, from what the Java program prints.

    >>> rows("a.b\\tInteger\\t1\\t\\told.b\\torg.apache.flink.configuration.CoreOptions\\n")
    [('a.b', 'INT', '1', '', 'old.b')]
    """
    found = {}
    for line in output.splitlines():
        key, kind, default, choices, older, owner = line.split("\t")
        if key not in _KEPT and (owner.startswith(_LEFT_OUT) or "#" in key):
            continue
        own, prefix = _RELATIVE_OWNERS.get(owner, ("", ""))
        whole = key if key.startswith(own) else prefix + key
        whole = _RELATIVE_KEYS.get(whole, whole)
        found[whole] = (whole, _type(kind, choices), default, choices, older)
    return [found[key] for key in sorted(found)]


def _type(kind: str, choices: str) -> str:
    if kind.startswith("List<"):
        return "LIST"
    return "ENUM" if choices else _TYPES[kind]


def read_jars(directories: list[Path]) -> str:
    """Run the Java program over the jars of some directories."""
    java = Path((ROOT / ".venv" / "java_home").read_text().strip(), "bin", "java")
    program = ROOT / "tools" / "ListFlinkOptions.java"
    command = [str(java), "-Djava.io.tmpdir=/tmp", str(program), *map(str, directories)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "pyflink", type=Path, help="site-packages/pyflink of apache-flink-libraries"
    )
    home = parser.parse_args().pyflink
    found = rows(read_jars([home / name for name in JARS]))
    TARGET.write_text("".join("\t".join(row) + "\n" for row in found), encoding="utf-8")
    sys.stdout.write(f"{len(found)} options in {TARGET.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
