"""The storage of a highly available cluster when it cannot be used."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.errors import ConfigurationError
from penstock.files.local import LocalFiles
from penstock.jobmanager.high_availability.services import HighAvailability
from tests.builders.unwritable import unwritable_directory


def services_at(directory: Path) -> HighAvailability:
    found = HighAvailability.from_configuration(
        Configuration.from_dict(
            {
                "high-availability.type": "storage",
                "high-availability.storageDir": str(directory),
                "high-availability.cluster-id": "shop",
            }
        )
    )
    assert found is not None
    return found


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ha").write_text("x")
    with pytest.raises(ConfigurationError) as caught:
        services_at(tmp_path / "ha").check_storage()
    assert caught.value.message == (
        f"could not write to high-availability.storageDir '{tmp_path}/ha/shop': "
        f"'{tmp_path}/ha' is a file, not a directory"
    )
    assert caught.value.hint == "delete the file or set another high-availability.storageDir"


def test_a_directory_that_may_not_be_written_is_refused() -> None:
    with (
        unwritable_directory() as directory,
        pytest.raises(ConfigurationError, match="permission denied"),
    ):
        services_at(directory).check_storage()


def test_storage_that_is_away_may_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise OSError(errno.EIO, "i/o error")

    monkeypatch.setattr(LocalFiles, "write_atomic", away)
    services_at(tmp_path / "ha").check_storage()
    assert "the high-availability storage is not available" in caplog.text


def test_a_directory_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    services_at(tmp_path / "ha").check_storage()
    assert [path.name for path in (tmp_path / "ha" / "shop").iterdir()] == []
