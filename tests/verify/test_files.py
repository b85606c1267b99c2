"""Files are whole or absent."""

import os

import pytest
from iclflow.verify.files import write_atomically


def test_files_are_whole_or_absent(tmp_path, monkeypatch):
    target = tmp_path / "a.txt"
    write_atomically(target, "first")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_atomically(target, "second")
    assert caught.value.filename == str(target)
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(ValueError, match="is a directory"):
        write_atomically(tmp_path, "x")


def test_permissions_are_the_umasks_or_the_files_own(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    (tmp_path / "new").chmod(0o604)
    write_atomically(tmp_path / "new", "y")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o604


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "file").read_text() == "new"
