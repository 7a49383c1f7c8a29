"""Writes tests/data/pyflink_answers.json: what PyFlink answers to the snippets in tests/data/pyflink_snippets.txt.

Run it with the interpreter of an environment that has PyFlink and not Penstock:

    python3.11 -m venv /tmp/pyflink && /tmp/pyflink/bin/pip install apache-flink==2.3.0
    PATH=/tmp/pyflink/bin:$PATH /tmp/pyflink/bin/python tools/record_pyflink_answers.py

Answers that are there already are kept, unless --all is given: a new snippet is recorded in seconds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pyflink_snippets import answer_of, namespace, read_snippets

DATA = Path(__file__).parents[1] / "tests" / "data"
ANSWERS = DATA / "pyflink_answers.json"


def main() -> None:
    """Record what is missing."""
    known = {} if "--all" in sys.argv or not ANSWERS.exists() else json.loads(ANSWERS.read_text())
    names = namespace()
    answers = {}
    for snippet in read_snippets(DATA / "pyflink_snippets.txt"):
        answers[snippet] = known.get(snippet) or answer_of(snippet, names)
        sys.stdout.write(f"{snippet}  ->  {answers[snippet]}\n")
    ANSWERS.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
