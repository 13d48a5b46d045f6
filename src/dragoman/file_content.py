"""The content of a file that a caller names, for `Image.from_path`, `File.from_path` and `attach`.

The core opens no files on its own. These constructors are the exception, so the function that opens one is here,
outside the modules that are checked to be pure.
"""

from __future__ import annotations

from typing import Protocol

from dragoman.media import MAX_BYTES, check_size


class ReadablePath(Protocol):
    """A path that reads its file itself, such as a resource of an installed package."""

    @property
    def name(self) -> str: ...

    def read_bytes(self) -> bytes: ...


class FilePath(Protocol):
    """A path of a file, such as a `pathlib.Path`."""

    def __fspath__(self) -> str: ...


def read_file(path: str | FilePath | ReadablePath) -> tuple[str, bytes]:
    """The name and the content of a file. Raises OSError, and ValueError if it is empty or too large."""
    if isinstance(path, str) or hasattr(path, "__fspath__"):
        place = path if isinstance(path, str) else path.__fspath__()
        if place.startswith(("http://", "https://")):
            raise ValueError(f"{place[:200]} is an address: dragoman.attach fetches it, and url= sends the address")
        # One byte more than allowed is enough to know that it is too large, also for a device without an end.
        with open(place, "rb") as file:
            content = file.read(MAX_BYTES + 1)
        name = place.rstrip("/").rpartition("/")[2]
    else:
        place, name, content = str(path), path.name, path.read_bytes()
    return name, check_size(content, place)
