"""Makes the class archive that lets Spark's JVM start in a third of the time: `python -m penstock.spark.class_archive`.

The archive belongs to one Java and one Spark. It is a cache: without it everything works, only the start takes longer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from penstock.spark.gateway import class_archive, stopping
from penstock.spark.session import start_recording_classes


def make_class_archive() -> Path:
    """Run a small job in a JVM that records its classes; return the archive's path."""
    archive = class_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
        fresh = Path(directory, "classes.jsa")
        context = start_recording_classes(fresh)
        process = context._gateway.proc  # noqa: SLF001 - the JVM that is to end here
        for _ in range(3):
            context.parallelize(range(4), 2).map(lambda x: (x % 2, x)).partitionBy(2, int).collect()
        stopping.set()
        context.stop()
        process.stdin.close()
        process.wait(timeout=120)
        if not fresh.is_file():
            raise FileNotFoundError(fresh)
        fresh.replace(archive)
    return archive


def main() -> None:
    """Create the archive if it does not exist; a failure is logged and harmless."""
    if class_archive().is_file() and "--force" not in sys.argv:
        return
    try:
        print(f"class archive: {make_class_archive()}")
    except Exception as error:  # noqa: BLE001 - it is only a cache
        print(f"no class archive was made ({error}): Spark will start more slowly")


if __name__ == "__main__":
    main()
