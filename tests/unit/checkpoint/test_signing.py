"""What is signed is read with its key only, and nothing else is unpickled."""

from __future__ import annotations

import json
import pickle
import zlib

import pytest

from penstock.checkpoint.handles import StateChain, read_state, write_state
from penstock.checkpoint.manifest import Manifest, OperatorSnapshot, decode, encode
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.signing import KEY_FILE_VARIABLE, SignatureError, Signer
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common import Configuration
from penstock.errors import ConfigurationError
from tests.builders.checkpoint_builders import manifest

SIGNER = Signer(b"0123456789abcdef")
OTHER = Signer(b"fedcba9876543210")


def store(tmp_path, signer):
    return ManifestStore(CheckpointFileSystem(str(tmp_path), sync=False), "job", signer)


def with_state(handle, checkpoint_id=1):
    state = OperatorSnapshot("sum", "sum", "v", 128, (StateChain((handle,)),))
    return Manifest("job", "name", checkpoint_id, 0, operators={"sum": state})


def test_signed_data_is_read_with_its_key(tmp_path):
    store(tmp_path, SIGNER).write(manifest(1))
    assert store(tmp_path, SIGNER).latest() == manifest(1)
    assert store(tmp_path, None).latest() == manifest(1)  # without a key nothing is checked


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [(None, SIGNER, "is not signed"), (OTHER, SIGNER, r"invalid signature of")],
    ids=["not signed", "another key"],
)
def test_data_without_a_valid_signature_is_rejected(tmp_path, writer, reader, message):
    store(tmp_path, writer).write(manifest(1))
    with pytest.raises(SignatureError, match=message) as raised:
        store(tmp_path, reader).latest(allow_fallback=True)
    assert "chk-1/_metadata" in raised.value.message


def test_a_manifest_that_was_altered_with_a_right_checksum_is_refused():
    data = encode(manifest(1), SIGNER)
    altered = json.loads(data.split(b"\n")[1])
    altered["job_name"] = "another"
    body = json.dumps(altered, separators=(",", ":"), sort_keys=True).encode()
    signature = json.loads(data.split(b"\n")[0])["hmac"]
    from penstock.checkpoint.manifest import _header

    forged = _header(body, signature) + body + b"\n"
    assert decode(forged, "path").job_name == "another"
    with pytest.raises(SignatureError, match="invalid signature of 'path'"):
        decode(forged, "path", SIGNER)


def test_a_signed_manifest_is_read_only_where_it_belongs(tmp_path):
    signed = store(tmp_path, SIGNER)
    signed.write(manifest(1))
    (tmp_path / "job/chk-7").mkdir()
    (tmp_path / "job/chk-7/_metadata").write_bytes((tmp_path / "job/chk-1/_metadata").read_bytes())
    with pytest.raises(SignatureError, match="is the manifest of checkpoint 1"):
        signed.latest()


def stored(tmp_path, data, **options):
    place = CheckpointFileSystem(str(tmp_path / "job"), sync=False)
    name = {"checkpoint_id": 1, "vertex": "v", "subtask": 0, "attempt": "a"}
    return place, write_state(place, data, kind="full", key_groups=(0, 128), **name, **options)


def collision(original, evil):
    """Other bytes with the same size and CRC-32: such are easy to find, so a checksum is not a signature."""
    body = evil + b"\0" * (len(original) - len(evil) - 4)
    base = zlib.crc32(body + b"\0\0\0\0")
    pivots = {}  # by highest bit: a difference of checksums, and the last bits that make it
    for bit in range(32):
        column, mask = zlib.crc32(body + (1 << bit).to_bytes(4, "little")) ^ base, 1 << bit
        while column and (found := pivots.get(column.bit_length())):
            column, mask = column ^ found[0], mask ^ found[1]
        pivots[column.bit_length()] = (column, mask)
    left, last = zlib.crc32(original) ^ base, 0
    while left:
        column, mask = pivots[left.bit_length()]
        left, last = left ^ column, last ^ mask
    return body + last.to_bytes(4, "little")


def test_a_state_file_that_was_altered_with_a_right_checksum_is_refused(tmp_path):
    data = pickle.dumps(list(range(1000)))
    place, handle = stored(tmp_path, data, inline_threshold=1, signed=True)
    evil = collision(data, b"evil")
    assert (len(evil), zlib.crc32(evil)) == (handle.size, handle.crc32)
    (tmp_path / "job" / handle.name).write_bytes(evil)
    with pytest.raises(SignatureError, match="does not match") as raised:
        read_state(place, handle)
    assert handle.name in raised.value.message


def test_a_signed_manifest_names_its_files_with_their_digest(tmp_path):
    _, unsigned = stored(tmp_path, b"x" * 100, inline_threshold=1)
    with pytest.raises(SignatureError, match=r"shared/1-v-0-a\.state' is not signed"):
        decode(encode(with_state(unsigned), SIGNER), "path", SIGNER)
    _, inline = stored(tmp_path, b"x" * 100)
    assert decode(encode(with_state(inline), SIGNER), "path", SIGNER) == with_state(inline)


def test_without_a_key_nothing_is_hashed(tmp_path):
    _, handle = stored(tmp_path, b"x" * 100, inline_threshold=1)
    assert handle.sha256 is None
    assert b"hmac" not in encode(manifest(1))


def test_the_key_comes_from_the_configuration_a_file_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "key").write_text("0123456789abcdef\n")

    def signer(**options):
        return Signer.from_configuration(
            Configuration.from_dict({f"penstock.signing.{k}": v for k, v in options.items()})
        )

    assert signer() is None
    assert signer(key="0123456789abcdef") == SIGNER
    assert signer(**{"key-file": str(tmp_path / "key")}) == SIGNER
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "key"))
    assert signer() == Signer.from_environment() == SIGNER
    assert "0123" not in repr(SIGNER)
    for wrong in (
        {"key": "short"},
        {"key": "0123456789abcdef", "key-file": "x"},
        {"key-file": str(tmp_path / "missing")},
    ):
        with pytest.raises(ConfigurationError):
            signer(**wrong)
