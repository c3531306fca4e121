"""The storage in a bucket of Cloud Storage."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import google.api_core.exceptions as api
import google.auth.exceptions
import requests
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY

from fleet.errors import NotFound, Unavailable, plain
from fleet.storage import CHUNK, SERVICE

TIMEOUT = (2, 3)  # seconds to connect, and between bytes
RETRY = DEFAULT_RETRY.with_timeout(5)
PART = 4 << 20  # bytes of an upload in one request
NEEDED = ["storage.objects.create", "storage.objects.get", "storage.objects.list"]


class Bucket:
    """A store in one bucket. STORAGE_EMULATOR_HOST and
    GOOGLE_APPLICATION_CREDENTIALS work as in Google's library."""

    def __init__(self, name: str) -> None:
        self.bucket = name
        self._lock = threading.Lock()
        self._client: storage.Client | None = None

    def put(self, name: str, content: BinaryIO) -> None:
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        # Small objects go in one request, large ones in parts, each with its own
        # timeout.
        blob = self._blob(name, chunk_size=None if size <= PART else PART)
        with self._errors(f"cannot store {name}"):
            try:
                blob.upload_from_file(content, size=size, if_generation_match=0, timeout=TIMEOUT, retry=RETRY)
            except api.PreconditionFailed:
                pass  # stored by an earlier request whose answer was lost: nobody else has this name

    def size(self, name: str) -> int:
        blob = self._blob(name)
        with self._errors(f"cannot look at {name}", reading=True):
            blob.reload(timeout=TIMEOUT, retry=None)
        return blob.size or 0

    def chunks(self, name: str) -> tuple[int, Iterator[bytes]]:
        blob = self._blob(name)
        with self._errors(f"cannot look at {name}", reading=True):
            blob.reload(timeout=TIMEOUT, retry=None)
        return blob.size or 0, self._read(name, blob)

    def _read(self, name: str, blob: storage.Blob) -> Iterator[bytes]:
        # One generation: the content is that of one moment also when the object
        # is replaced meanwhile.
        with (
            self._errors(f"cannot read {name}", reading=True),
            blob.open("rb", chunk_size=CHUNK, if_generation_match=blob.generation, timeout=TIMEOUT, retry=RETRY) as f,
        ):
            while chunk := f.read(CHUNK):
                yield chunk

    def delete(self, name: str) -> None:
        with self._errors(f"cannot delete {name}"):
            try:
                self._blob(name).delete(timeout=TIMEOUT, retry=None)
            except api.NotFound:
                pass

    def first(self, folder: str) -> str | None:
        with self._errors(f"cannot look into {folder}"):
            found = self._open().list_blobs(self.bucket, prefix=folder, max_results=1, timeout=TIMEOUT, retry=None)
            return next((blob.name for blob in found), None)

    def check(self) -> None:
        with self._errors("cannot be looked at"):
            bucket = self._open().bucket(self.bucket)
            try:
                granted = bucket.test_iam_permissions(NEEDED, timeout=TIMEOUT, retry=None)
            except api.NotFound:  # no such bucket, or an emulator that knows no permissions
                if not bucket.exists(timeout=TIMEOUT, retry=None):
                    raise self._unavailable("does not exist; create it or correct GCS_BUCKET_NAME") from None
                return
        if missing := [p for p in NEEDED if p not in granted]:
            raise self._unavailable(
                f"permission missing: {', '.join(missing)}; grant roles/storage.objectUser on it to the account in use"
            )

    def _blob(self, name: str, chunk_size: int | None = None) -> storage.Blob:
        with self._errors("cannot be opened"):
            return self._open().bucket(self.bucket).blob(name, chunk_size=chunk_size)

    def _open(self) -> storage.Client:
        # On first use, not when the page starts: looking for credentials may
        # fail, and may work later.
        with self._lock:
            if self._client is None:
                # Without a project, for which the library would go and look:
                # the name of a bucket is unique without one.
                self._client = storage.Client(project="none")
            return self._client

    @contextmanager
    def _errors(self, what: str, reading: bool = False) -> Iterator[None]:
        """Translates the errors of Google's libraries. Who reads an object may
        learn that there is none; for all others only the bucket can be missing."""
        try:
            yield
        except api.NotFound as err:
            if reading:
                raise NotFound(what) from err
            raise self._unavailable(f"{what}: no such bucket; create it or correct GCS_BUCKET_NAME") from err
        except (
            api.GoogleAPIError,
            google.auth.exceptions.GoogleAuthError,
            requests.RequestException,
            OSError,
        ) as err:
            raise self._unavailable(f"{what}: {plain(err)}") from err

    def _unavailable(self, cause: str) -> Unavailable:
        return Unavailable(SERVICE, f"bucket {self.bucket}: {cause}")
