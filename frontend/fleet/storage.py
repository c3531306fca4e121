"""The storage: what every store can do. The stores themselves import this module."""

from collections.abc import Iterator
from typing import BinaryIO, Protocol

SERVICE = "Storage"  # its name for people
CHUNK = 1 << 20  # bytes that a copy holds in memory


class Store(Protocol):
    """Objects by name, in a directory or in a bucket.

    Methods raise Unavailable when the store cannot be used, and those that read
    raise NotFound when there is no such object. They may be called from several
    threads.
    """

    bucket: str  # as messages name it: "local" or a bucket

    def put(self, name: str, content: BinaryIO) -> None:
        """Store content, from its start, under a name that is new. An object
        appears whole or not at all."""
        ...

    def size(self, name: str) -> int:
        """The size of an object in bytes."""
        ...

    def chunks(self, name: str) -> tuple[int, Iterator[bytes]]:
        """The size of an object and its content, in parts of at most CHUNK."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object. That it is absent is no error."""
        ...

    def first(self, folder: str) -> str | None:
        """The name of one object that begins with folder, which ends in a slash;
        None if there is none."""
        ...

    def check(self) -> None:
        """Nothing if the store can be used; raises Unavailable with advice."""
        ...


def read_all(store: Store, name: str, limit: int) -> bytes | None:
    """The whole content of an object; None if it is larger than limit bytes."""
    size, chunks = store.chunks(name)
    if size > limit:
        return None
    content = b""
    for chunk in chunks:
        content += chunk
        if len(content) > limit:  # it has grown since
            return None
    return content
