"""Hooks of MkDocs: pages that lie outside of docs/, links that leave it, the rest of the navigation, and llms.txt."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
#: files of the repository that are pages of the site, too
OUTSIDE = {
    "CONTRIBUTING.md": "developers/contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "developers/security.md",
}
LINK = re.compile(r"(\]\()(<?)([^)\s>#]+)(#[^)\s>]*)?(>?\))")
FENCE = re.compile(r"^(?: {0,3})(`{3,}).*?^ {0,3}\1`*[ \t]*$", re.MULTILINE | re.DOTALL)
#: what follows the language of a fence, such as `skip`: it is for tests
INFO = re.compile(r"^( {0,3}`{3,}[\w-]+)[ \t]+[^\n{]+$", re.MULTILINE)
_navigation: list[Navigation] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages that the navigation does not list to the section of their folder."""
    listed = set(_paths(config.nav))
    for path in sorted(Path(config.docs_dir).rglob("*.md")):
        page = path.relative_to(config.docs_dir).as_posix()
        if page not in listed:
            _section_of(page, config.nav).append(page)
    return config


def _paths(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from _paths(value) if isinstance(value, list) else [value]


def _section_of(page: str, entries: list[Any]) -> list[Any]:
    """Return the innermost section with a page of the same folder; the whole navigation if there is none."""
    folder = posixpath.dirname(page)
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else ():
            if isinstance(value, list):
                inner = _section_of(page, value)
                if inner is not value or any(
                    posixpath.dirname(path) == folder for path in value if isinstance(path, str)
                ):
                    return inner
                direct = [
                    each for item in value if isinstance(item, dict) for each in item.values()
                ]
                if any(
                    isinstance(path, str) and posixpath.dirname(path) == folder for path in direct
                ):
                    return value
    return entries


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/, and the programs that pages link to."""
    for path, page in OUTSIDE.items():
        if (ROOT / path).exists():
            files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    linked = {
        target
        for page in files.documentation_pages()
        for _, target in _links(page.content_string, _path_in_repository(page.src_uri))
        if not target.startswith("docs/") and target not in OUTSIDE
    }
    for target in sorted(linked):
        if (ROOT / target).is_file():
            files.append(File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links of a page lead to where the site has their files, and leave out what fences say to tests."""
    here = _path_in_repository(page.file.src_uri)

    def moved(found: re.Match[str]) -> str:
        target = _target(found[3], here)
        if target is None:
            return found[0]
        place = posixpath.relpath(
            _place_in_site(target), posixpath.dirname(page.file.src_uri) or "."
        )
        return f"{found[1]}{found[2]}{place}{found[4] or ''}{found[5]}"

    parts = []
    end = 0
    for fence in FENCE.finditer(markdown):
        parts += [
            LINK.sub(moved, markdown[end : fence.start()]),
            INFO.sub(r"\1", fence[0], count=1),
        ]
        end = fence.end()
    return "".join([*parts, LINK.sub(moved, markdown[end:])])


def on_nav(nav: Navigation, **_: Any) -> Navigation:
    """Keep the navigation for llms.txt."""
    _navigation[:] = [nav]
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: what Penstock is, and every page with its first sentence."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in _navigation[0].items:
        if isinstance(section, Section):
            lines += ["", f"## {section.title}", ""]
            lines += [_line(page) for page in _pages(section)]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n")


def _line(page: Page) -> str:
    sentence = first_sentence(page.file.content_string)
    return (
        f"- [{page.title}]({page.url}): {sentence}" if sentence else f"- [{page.title}]({page.url})"
    )


def _pages(section: Section) -> Iterator[Page]:
    for each in section.children:
        if isinstance(each, Section):
            yield from _pages(each)
        elif isinstance(each, Page):
            yield each


def first_sentence(page: str) -> str:
    r"""Return the first sentence of a page, as plain text.

    >>> first_sentence("# Kafka\n\nReads [topics](a.md), in\n`penstock`. And more.")
    'Reads topics, in penstock.'
    """
    for paragraph in page.split("\n\n"):
        text = " ".join(paragraph.split())
        if text and text[0] not in "#`<>|!-:{":
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")
            return re.split(r"(?<=[.!?:])\s", plain)[0]
    return ""


def _path_in_repository(page: str) -> str:
    outside = {place: path for path, place in OUTSIDE.items()}
    return outside.get(page, f"docs/{page}")


def _place_in_site(target: str) -> str:
    if target in OUTSIDE:
        return OUTSIDE[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else f"files/{target}"


def _target(link: str, here: str) -> str | None:
    """Return which file of the repository a link leads to."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), link))


def _links(markdown: str, here: str) -> Iterator[tuple[str, str]]:
    for found in LINK.finditer(FENCE.sub("", markdown)):
        target = _target(found[3], here)
        if target is not None:
            yield found[3], target
