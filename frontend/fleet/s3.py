"""The storage in a bucket of S3, or of any store that speaks its protocol."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import boto3
import botocore.exceptions as boto
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from fleet.config import S3
from fleet.errors import NotFound, Unavailable, plain
from fleet.storage import CHUNK, SERVICE

PART = 8 << 20  # bytes of an upload in one request, and of what goes in a single one
TRANSFER = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, use_threads=False)
ABSENT = {"404", "NoSuchKey", "NotFound"}


class Bucket:
    """A store in one bucket. Without keys in the settings they are searched for as
    in AWS's programs."""

    def __init__(self, settings: S3) -> None:
        self.bucket = settings.bucket
        self._settings = settings
        self._lock = threading.Lock()
        self._client: Any = None

    def put(self, name: str, content: BinaryIO) -> None:
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        with self._errors(f"cannot store {name}"):
            # Nobody else has this name, so a request that comes twice does no harm.
            if size <= PART:
                self._open().put_object(Bucket=self.bucket, Key=name, Body=content.read())
            else:
                self._open().upload_fileobj(_Unclosed(content), self.bucket, name, Config=TRANSFER)

    def size(self, name: str) -> int:
        with self._errors(f"cannot look at {name}", reading=True):
            return self._open().head_object(Bucket=self.bucket, Key=name)["ContentLength"]

    def chunks(self, name: str) -> tuple[int, Iterator[bytes]]:
        with self._errors(f"cannot look at {name}", reading=True):
            # One answer: the content is that of one moment also when the object is
            # replaced meanwhile.
            answer = self._open().get_object(Bucket=self.bucket, Key=name)
        return answer["ContentLength"], self._read(name, answer["Body"])

    def _read(self, name: str, body: Any) -> Iterator[bytes]:
        with self._errors(f"cannot read {name}", reading=True), body:
            yield from body.iter_chunks(CHUNK)

    def delete(self, name: str) -> None:
        with self._errors(f"cannot delete {name}"):
            self._open().delete_object(Bucket=self.bucket, Key=name)

    def first(self, folder: str) -> str | None:
        with self._errors(f"cannot look into {folder}"):
            found = self._open().list_objects_v2(Bucket=self.bucket, Prefix=folder, MaxKeys=1)
            return next((one["Key"] for one in found.get("Contents", [])), None)

    def check(self) -> None:
        with self._errors("cannot be looked at"):
            self._open().list_objects_v2(Bucket=self.bucket, MaxKeys=1)

    def _open(self) -> Any:
        # On first use, not when the page starts: looking for credentials may
        # fail, and may work later.
        with self._lock:
            if self._client is None:
                s = self._settings
                self._client = boto3.session.Session().client(
                    "s3",
                    endpoint_url=s.endpoint or None,
                    region_name=s.region or None,
                    aws_access_key_id=s.access_key or None,
                    aws_secret_access_key=s.secret_key or None,
                    aws_session_token=s.token or None,
                    verify=s.ca_file or None,
                    config=Config(
                        connect_timeout=2,
                        read_timeout=3,
                        retries={"total_max_attempts": 2, "mode": "standard"},
                        s3={"addressing_style": s.style},
                        # Stores other than AWS do not all know the newer checksums.
                        request_checksum_calculation="when_required",
                        response_checksum_validation="when_required",
                    ),
                )
            return self._client

    @contextmanager
    def _errors(self, what: str, reading: bool = False) -> Iterator[None]:
        """Translates the errors of AWS's library. Who reads an object may learn that
        there is none."""
        try:
            yield
        except boto.ClientError as err:
            code = err.response.get("Error", {}).get("Code", "")
            if code == "NoSuchBucket":
                raise self._unavailable(f"{what}: no such bucket; create it or correct S3_BUCKET_NAME") from err
            if reading and code in ABSENT:
                raise NotFound(what) from err
            raise self._unavailable(f"{what}: {plain(err)}{_advice(code)}") from err
        except (boto.BotoCoreError, boto.HTTPClientError, boto3.exceptions.Boto3Error, OSError, ValueError) as err:
            raise self._unavailable(f"{what}: {plain(err)}") from err

    def _unavailable(self, cause: str) -> Unavailable:
        return Unavailable(SERVICE, f"bucket {self.bucket}: {cause}")


def _advice(code: str) -> str:
    if code in ("AccessDenied", "403"):
        return "; allow the account in use s3:ListBucket on the bucket, s3:GetObject and s3:PutObject on its objects"
    if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch"):
        return "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return ""


class _Unclosed:
    """A file that the library reads and does not close: it belongs to the caller."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content

    def read(self, size: int = -1) -> bytes:
        return self._content.read(size)
