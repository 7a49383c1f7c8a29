"""The glossary names a module for each term, and a search for the term finds it there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"


def rows() -> list[tuple[list[str], list[str]]]:
    """Return the terms and modules of each row."""
    found = []
    for line in GLOSSARY.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| Term"):
            terms, _, modules = (cell.strip() for cell in line.strip("| ").split(" | "))
            found.append((terms.split(", "), re.findall(r"`([^`]+)`", modules)))
    return found


def words(text: str) -> str:
    """Return a text as words: `JobGraph`, `job_graph` and `job-graph` are the same.

    >>> words("JobGraph job_graph job-graph")
    'job graph job graph job graph'
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return " ".join(re.sub(r"[\W_]+", " ", apart).lower().split())


def test_terms_are_in_alphabetical_order() -> None:
    terms = [words(terms[0]) for terms, _ in rows()]
    assert len(terms) > 80
    assert terms == sorted(terms)


def test_each_term_has_a_module_that_uses_it() -> None:
    wrong = []
    for terms, modules in rows():
        paths = [ROOT / "penstock" / module for module in modules]
        missing = [path for path in paths if not path.is_file()]
        texts = [path.read_text() for path in paths if path.is_file()]
        text = words(" ".join([*modules, *texts]))
        wrong += [f"{terms[0]}: no module {path}" for path in missing]
        wrong += [f"{term}: not in {modules}" for term in terms if words(term) not in text]
    assert wrong == []


def test_words_that_people_look_for_are_terms() -> None:
    terms = {words(term) for terms, _ in rows() for term in terms}
    looked_for = ["watermark alignment", "in-flight data", "late", "TTL", "Kafka commit", "credit"]
    assert [each for each in looked_for if words(each) not in terms] == []
