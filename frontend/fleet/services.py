"""The services of one fleet, opened once for all visitors of the page."""

import functools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from fleet.config import Settings, read
from fleet.errors import NotFound, Unavailable
from fleet.local import Directory
from fleet.names import upload_folder
from fleet.queue import Topic
from fleet.status import Board
from fleet.storage import Store

FRESH_SECONDS = 3.0  # how long an answer of the services about their health holds
MAX_NAMES = 10_000  # file names kept


@dataclass
class Services:
    """Storage, Redis and queue. It may be used from several threads."""

    settings: Settings
    store: Store
    board: Board
    topic: Topic
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "services"))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _checked: float = float("-inf")
    _problems: list[Unavailable] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def problems(self) -> list[Unavailable]:
        """What cannot be used now. All are asked at the same time, and seldom:
        many visitors cost no more than one."""
        with self._lock:
            if time.monotonic() - self._checked > FRESH_SECONDS:
                asked = [self._pool.submit(_problem, part) for part in (self.store, self.board, self.topic)]
                self._problems = [problem for a in asked if (problem := a.result())]
                self._checked = time.monotonic()
            return self._problems

    def remember(self, job_id: str, file: str) -> None:
        """Note what people call the file of a job."""
        with self._lock:
            self._names[job_id] = file
            while len(self._names) > MAX_NAMES:
                del self._names[next(iter(self._names))]

    def file_names(self, ids: list[str]) -> dict[str, str]:
        """What people call the files of jobs: as noted, else by their inputs in
        the storage. Jobs of which neither says anything are left out."""
        with self._lock:
            known = {id: self._names[id] for id in ids if id in self._names}
        missing = [id for id in ids if id not in known]
        for id, name in zip(missing, self._pool.map(self._look_up, missing), strict=True):
            if name is not None:
                known[id] = name
                self.remember(id, name)
        return {id: name for id, name in known.items() if name}

    def _look_up(self, job_id: str) -> str | None:
        """The name of a job's input, empty if it has none; None if the storage
        does not answer."""
        folder = upload_folder(job_id)
        try:
            name = self.store.first(folder)
        except (Unavailable, NotFound):
            return None  # a name is a convenience; the storage's trouble is told elsewhere
        return name.removeprefix(folder) if name else ""


def open_services(settings: Settings) -> Services:
    """The services that the settings name. Nothing is sent yet."""
    return Services(settings, open_store(settings), Board(settings), Topic(settings))


def open_store(settings: Settings) -> Store:
    """The store that the settings ask for. Nothing is sent yet."""
    if settings.storage_type == "GCP":
        # Imported only when asked for: Google's libraries cost half a second
        # and 30 MB.
        from fleet.gcs import Bucket

        return Bucket(settings.bucket)
    if settings.s3:
        from fleet.s3 import Bucket as S3Bucket

        return S3Bucket(settings.s3)
    return Directory(settings.local_path)


@functools.cache
def shared() -> Services:
    """The services that the environment names; raises ConfigError."""
    return open_services(read(os.environ))


def _problem(part: Store | Board | Topic) -> Unavailable | None:
    try:
        part.check()
    except Unavailable as err:
        return err
    return None
