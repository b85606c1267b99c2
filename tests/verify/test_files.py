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
    with pytest.raises(OSError, match="No space"):
        write_atomically(target, "second")
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(ValueError, match="is a directory"):
        write_atomically(tmp_path, "x")
