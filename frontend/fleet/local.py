"""The storage in a directory that the workers share."""

import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fleet.errors import NotFound, Unavailable, plain
from fleet.names import TEMP_PREFIX, valid_name
from fleet.storage import CHUNK, SERVICE


class Directory:
    """A store in a directory of the local file system.

    Calls have no deadline: the system has none for files. A network file system
    that hangs hangs the page with it, unless it is mounted soft.
    """

    bucket = "local"

    def __init__(self, path: str) -> None:
        self.root = Path(path).absolute()  # a later chdir must not move it

    def put(self, name: str, content: BinaryIO) -> None:
        """See Store.

        As the workers do it: a hidden file beside the object is synced and then
        renamed, and its directory synced, so that a power cut leaves the whole
        object or none.
        """
        try:
            target = self._path(name, make=True)
            temp = target.with_name(TEMP_PREFIX + uuid.uuid4().hex)
            try:
                with temp.open("xb") as out:
                    content.seek(0)
                    shutil.copyfileobj(content, out, CHUNK)
                    out.flush()
                    os.fsync(out.fileno())
                temp.rename(target)
            except BaseException:
                temp.unlink(missing_ok=True)
                raise
            for changed in (target.parent, target.parent.parent):
                _sync(changed)
        except OSError as err:
            raise self._unavailable(f"cannot store {name}", err) from err

    def size(self, name: str) -> int:
        with self._open(name) as f:
            return os.fstat(f.fileno()).st_size

    def chunks(self, name: str) -> tuple[int, Iterator[bytes]]:
        f = self._open(name)
        return os.fstat(f.fileno()).st_size, self._read(name, f)

    def _read(self, name: str, f: BinaryIO) -> Iterator[bytes]:
        with f:
            try:
                while chunk := f.read(CHUNK):
                    yield chunk
            except OSError as err:
                raise self._unavailable(f"cannot read {name}", err) from err

    def delete(self, name: str) -> None:
        try:
            path = self._path(name)
            path.unlink(missing_ok=True)
            path.parent.rmdir()  # the job's own directory, if it is empty now
        except FileNotFoundError:
            pass
        except OSError as err:
            raise self._unavailable(f"cannot delete {name}", err) from err

    def first(self, folder: str) -> str | None:
        try:
            with os.scandir(self._path(folder.rstrip("/"))) as entries:
                found = (e.name for e in entries if not e.name.startswith(TEMP_PREFIX) and e.is_file())
                name = next(found, None)
        except (FileNotFoundError, NotADirectoryError) as err:
            self._must_be_there(err)
            return None
        except OSError as err:
            raise self._unavailable(f"cannot look into {folder}", err) from err
        return None if name is None else folder + name

    def check(self) -> None:
        probe = self.root / (TEMP_PREFIX + uuid.uuid4().hex)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                probe.write_bytes(bytes(4096))  # an empty file can be made on a full disk
            finally:
                probe.unlink(missing_ok=True)
        except OSError as err:
            raise self._unavailable("cannot be written", err) from err

    def _open(self, name: str) -> BinaryIO:
        try:
            # Not through a link, and without waiting for the other end of a FIFO.
            fd = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError) as err:
            self._must_be_there(err)
            raise NotFound(name) from err
        except OSError as err:
            raise self._unavailable(f"cannot open {name}", err) from err
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotFound(name)
        return os.fdopen(fd, "rb")

    def _path(self, name: str, make: bool = False) -> Path:
        """The path of an object; with make, its directory is there afterwards.

        No name leaves the directory, not by symbolic links either.
        """
        if not valid_name(name):
            raise NotFound(name)
        path = self.root / name
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(self.root.resolve()):
            raise NotFound(name)
        return path

    def _must_be_there(self, err: OSError) -> None:
        """In a directory that is gone nothing exists, but that says nothing about
        the objects."""
        if not self.root.is_dir():
            raise self._unavailable("cannot look for objects", err) from err

    def _unavailable(self, what: str, err: OSError) -> Unavailable:
        reason = err.strerror or plain(err)
        return Unavailable(
            SERVICE,
            f"{what} in {self.root}: {reason}. The directory must exist, have free space "
            f"and be writable for user id {os.getuid()}.",
        )


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
