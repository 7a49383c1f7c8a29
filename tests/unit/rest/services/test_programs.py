"""Programs that are uploaded: forms, names, and what is refused."""

from __future__ import annotations

import pytest

from penstock.rest.messages import HttpError
from penstock.rest.services.programs import Programs, file_of_form

TYPE = "multipart/form-data; boundary=B"


def form(*parts):
    return b"".join(b"--B\r\n" + part + b"\r\n" for part in parts) + b"--B--\r\n"


def part(name, content, *headers):
    disposition = f'Content-Disposition: form-data; name="jarfile"; filename="{name}"'
    return "\r\n".join([disposition, *headers, "", ""]).encode() + content


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("job.py", b"print('a')\n"),
        ("job.py", "# größer\r\n\r\nx = 1\n".encode()),
        ("../../job.py", b"x = 1"),
    ],
)
def test_the_file_of_a_form_is_found_as_it_is(name, content):
    found = file_of_form(TYPE, form(part(name, content)))
    assert found == ("job.py", content)


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("", b"", 415),
        ("multipart/form-data", form(part("job.py", b"")), 400),
        ("multipart/form-data; boundary=\xff\xfe", b"\x00" * 100, 400),
        (TYPE, b"", 400),
        (TYPE, b"--B", 400),
        (TYPE, form(part("a.py", b""), part("b.py", b"")), 400),
        (TYPE, form(b"Content-Disposition: form-data; name=x\r\n\r\nno file"), 400),
        (TYPE, form(b"Content-Disposition: form-data; filename*=x'y'%%%\r\n\r\n")[:40], 400),
    ],
)
def test_what_is_not_a_form_with_one_file_is_refused(content_type, body, status):
    with pytest.raises(HttpError) as refused:
        file_of_form(content_type, body)
    assert refused.value.status == status


@pytest.mark.parametrize("name", ["job.jar", "", ".py/", "a b.py", "größe.py", "x" * 200 + ".py"])
def test_a_name_that_is_not_a_python_file_is_refused(name):
    with pytest.raises(HttpError, match="is not a Python file"):
        Programs().add(name, b"")


@pytest.mark.parametrize("content", [b"def f(:", b"\x00", b"\xff\xfe"])
def test_what_cannot_be_compiled_is_refused(content):
    with pytest.raises(HttpError, match="cannot be compiled"):
        Programs().add("job.py", content)


def test_programs_are_kept_until_they_are_deleted():
    programs = Programs()
    first, second = programs.add("job.py", b"x = 1"), programs.add("job.py", b"x = 2")
    assert programs.all() == [second, first]
    assert (first.path.read_bytes(), second.path.read_bytes()) == (b"x = 1", b"x = 2")
    programs.remove(first.id)
    assert programs.all() == [second]
    assert not first.path.exists()
    with pytest.raises(HttpError, match="unknown program"):
        programs.find(first.id)


def test_a_program_is_not_run_when_it_is_uploaded(tmp_path):
    marker = tmp_path / "ran"
    Programs().add("job.py", f"open({str(marker)!r}, 'w')".encode())
    assert not marker.exists()
