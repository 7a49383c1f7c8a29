"""An extension of Griffe: examples in docstrings (`>>> `) become fenced blocks, as Markdown would take them for quotations."""

from __future__ import annotations

from typing import Any

import griffe


class DoctestFences(griffe.Extension):  # type: ignore[misc]
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fence_examples(obj.docstring.value)


def fence_examples(text: str) -> str:
    r"""Put paragraphs that begin with `>>> ` between fences, unless they are in one.

    >>> print(fence_examples("Adds.\n\n>>> 1 + 1\n2\n\nDone."))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    Done.
    """
    lines: list[str] = []
    in_example = in_fence = False
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("```"):
            in_fence = not in_fence
        if not in_fence and not in_example and line.startswith(">>> "):
            if lines and lines[-1]:
                lines.append("")
            lines.append("```pycon")
            in_example = True
        elif in_example and not line.strip():
            lines.append("```")
            in_example = False
        lines.append(line)
    return "\n".join(lines[:-1] if lines and not lines[-1] else lines)
