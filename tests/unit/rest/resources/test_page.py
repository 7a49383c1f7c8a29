"""The files of the page: who gets them, and what stands in them."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path

import pytest

from penstock.web import assets

MODULE = re.compile(r'(?:from|import)\s*\(?"([^"]+)"')


@pytest.fixture
def fetch(start_server):
    server = start_server(bind_address="0.0.0.0")  # where everything else needs the token

    def get(path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response, content

    return get


def test_everybody_may_load_the_page(fetch):
    response, content = fetch("/")
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"<title>Penstock</title>" in content


def test_a_browser_asks_again_and_gets_only_what_has_changed(fetch):
    first, content = fetch("/web/app/main.js")
    assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert content
    again, content = fetch("/web/app/main.js", **{"If-None-Match": first.headers["ETag"]})
    assert (again.status, content) == (304, b"")
    other, _ = fetch("/web/app/main.js", **{"If-None-Match": '"old"'})
    assert other.status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/web/",
        "/web/nothing.js",
        "/web/../assets.py",
        "/web/..%2fassets.py",
        "/web/%2e%2e/assets.py",
        "/web//etc/passwd",
        "/web/app",
        "/web/vendor/preact/LICENSE",
    ],
)
def test_nothing_but_files_of_the_page_is_given_out(fetch, path):
    response, content = fetch(path)
    assert response.status == 404
    assert json.loads(content)["errors"]


def test_the_page_may_load_only_what_comes_from_its_server(fetch):
    policy = fetch("/")[0].headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "'unsafe-eval'" not in policy
    assert re.search(r"script-src 'self' 'sha256-[^']+';", policy)


def test_no_file_refers_to_another_host():
    for name in assets.names():
        asset = assets.find(name)
        assert asset is not None
        if not name.startswith("vendor/"):
            found = set(re.findall(rb"https?://[\w.]+", asset.content))
            assert found <= {b"http://www.w3.org"}, name  # the name space of SVG


def test_every_module_that_is_imported_is_there():
    index = assets.find("index.html")
    assert index is not None
    table = json.loads(re.search(rb'"importmap">(.*?)</script>', index.content)[1])["imports"]
    known = {name: path.removeprefix("./web/") for name, path in table.items()}
    for name in (each for each in assets.names() if each.startswith("app/")):
        text = (assets.ROOT / name).read_text()
        for module in MODULE.findall(text):
            if module.endswith(".d.ts"):
                continue  # types, which stand in comments
            target = known.get(module) or str(
                (assets.ROOT / name).parent.joinpath(module).resolve().relative_to(assets.ROOT)
            )
            assert target in assets.names(), f"{name} imports {module}"
    for path in re.findall(r'(?:src|href)="web/([^"]+)"', index.content.decode()):
        assert path in assets.names()


def test_every_library_stands_in_the_table_with_version_and_licence():
    vendor = assets.ROOT / "vendor"
    table = (vendor / "README.md").read_text()
    for folder in (each for each in vendor.iterdir() if each.is_dir()):
        row = next(line for line in table.splitlines() if re.match(rf"\| \[.*{folder.name}", line))
        assert re.search(r"\| \d+\.\d+\.\d+ \|", row)
        assert (folder / "LICENSE").stat().st_size > 500


def test_what_readers_of_the_source_meet_is_short():
    for path in Path(assets.ROOT / "app").rglob("*.js"):
        assert len(path.read_text().splitlines()) <= 250, path
