"""Files that are either written completely or not at all."""

import os
import tempfile
from pathlib import Path


def require_writable(path: Path) -> None:
    """Raise ``ValueError`` naming the path unless a file of that name can be written."""
    folder = path.parent
    if path.is_dir():
        raise ValueError(f"{path}: is a directory, and must be a file")
    if not folder.is_dir():
        raise ValueError(f"{path}: the directory {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path}: the directory {folder} cannot be written to")


def require_directory(path: Path) -> None:
    """Make the directory if it is missing; raise ``ValueError`` naming it unless files can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"{path}: the directory cannot be made: {problem.strerror}") from problem
    if not os.access(path, os.W_OK):
        raise ValueError(f"{path}: the directory cannot be written to")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target, then rename: a reader, or an interrupt, never meets half a file."""
    require_writable(path)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
