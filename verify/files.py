"""Files that are either written completely or not at all."""

import os
import stat
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


def beside(path: Path, complete: bool) -> Path:
    """The path for what is complete; ``name.partial.json`` for a part, which is not to replace it."""
    return path if complete else path.with_name(f"{path.stem}.partial{path.suffix}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target, then rename: a reader, or an interrupt, never meets half a file.

    A new file has the permissions that the umask leaves; an existing one keeps its own, and a link goes on pointing to it.
    """
    require_writable(path)
    target, data = path.resolve(), content.encode() if isinstance(content, str) else content
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as problem:  # a full disk, which names no file, or the temporary one
        raise OSError(problem.errno, problem.strerror, str(path)) from problem


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
