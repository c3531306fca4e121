"""The status of jobs in Redis: the key job:ID of status/SPEC.md."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.config import Settings
from fleet.errors import Unavailable, plain
from fleet.names import valid_id

SERVICE = "Redis"
TTL_SECONDS = 86400
TERMINAL = frozenset({"completed", "failed", "canceled"})
STATUSES = TERMINAL | {"queued", "processing"}

QUEUED_MESSAGE = "Waiting for a worker..."
CANCELED_MESSAGE = "Canceled"

CONNECT_TIMEOUT = 2.0  # seconds
ANSWER_TIMEOUT = 2.0
MAX_DOCUMENT = 64 << 10  # characters; the longest of the contract has some 25 000
MAX_SHOWN = 4 << 10  # characters of a message or an error that are kept
BATCH = 500  # keys in one MGET


@dataclass(frozen=True)
class Status:
    """What a frontend may know of a job."""

    status: str  # one of STATUSES
    progress: int  # 0 to 100
    message: str = ""
    error_msg: str = ""  # the cause once failed
    updated_at: datetime | None = None  # UTC; None if it does not say

    @property
    def ended(self) -> bool:
        """Whether this is final: a terminal status is never overwritten."""
        return self.status in TERMINAL


def parse(text: str) -> Status | None:
    """The status that the value of a key says, None if it says none.

    The key is shared with everybody who can reach Redis, so nothing of it is
    taken on trust: neither types nor lengths.
    """
    if len(text) > MAX_DOCUMENT:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    status = fields.get("status") if isinstance(fields, dict) else None
    if not isinstance(status, str) or status not in STATUSES:
        return None
    return Status(
        status=status,
        progress=_percent(fields.get("progress")),
        message=_text(fields.get("message")),
        error_msg=_text(fields.get("error_msg")),
        updated_at=_moment(fields.get("updated_at")),
    )


def _percent(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(max(0, min(value, 100)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    # Half of a surrogate pair is valid JSON but cannot be sent to a browser.
    return value[:MAX_SHOWN].encode(errors="replace").decode()


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Recent:
    """Jobs of the last 24 hours, those that changed last first."""

    jobs: list[tuple[str, Status]]
    complete: bool  # False when there are more than could be looked at or shown


class Board:
    """The statuses of all jobs. Methods raise Unavailable within some seconds
    when Redis does not answer, and may be called from several threads."""

    def __init__(self, settings: Settings) -> None:
        self.address = f"{settings.redis_host}:{settings.redis_port}"
        self._redis = redis.Redis(
            host=settings.redis_host,
            port=settings.redis_port,
            db=settings.redis_db,
            username=settings.redis_username or None,
            password=settings.redis_password or None,
            ssl=settings.redis_tls,
            protocol=2,
            encoding_errors="replace",
            decode_responses=True,
            socket_connect_timeout=CONNECT_TIMEOUT,
            socket_timeout=ANSWER_TIMEOUT,
            # Once more, at once: connections in the pool die with a Redis that
            # restarts. Not after a timeout: the page would wait twice as long.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )

    def get(self, ids: Sequence[str]) -> dict[str, Status | None]:
        """The statuses of jobs; None for one whose status cannot be read, no
        entry for one of which nothing is known."""
        found: dict[str, Status | None] = {}
        with self._errors():
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                values = self._redis.mget([_key(id) for id in batch])
                found |= {id: parse(v) for id, v in zip(batch, values, strict=True) if v is not None}
        return found

    def queue(self, job_id: str) -> None:
        """Record a job as waiting, unless it is known already: a worker may have
        been faster."""
        with self._errors():
            self._redis.set(_key(job_id), _document("queued", QUEUED_MESSAGE), nx=True, ex=TTL_SECONDS)

    def withdraw(self, job_id: str) -> bool:
        """End a job that still waits as canceled; True if nobody will run it.

        For jobs whose message may not have reached the queue. When it has, after
        all, and a worker has begun, the job is left alone.
        """
        key = _key(job_id)
        with self._errors(), self._redis.pipeline() as pipe:
            while True:
                pipe.watch(key)
                value = pipe.get(key)
                if value is None:
                    return True
                known = parse(value)
                if known is None or known.status != "queued":
                    return known is not None and known.status == "canceled"
                pipe.multi()
                pipe.set(key, _document("canceled", CANCELED_MESSAGE, known.progress), ex=TTL_SECONDS)
                try:
                    pipe.execute()
                    return True
                except redis.WatchError:
                    continue  # changed meanwhile: look again

    def recent(self, limit: int, patience: float = 2.0, max_ids: int = 5000) -> Recent:
        """Up to limit jobs, those that changed last first.

        The contract has no list of jobs (jobs:index is private to the workers),
        so this looks through all keys, which cost a shared Redis a millisecond
        a thousand: for at most patience seconds and max_ids jobs. It is meant for
        when somebody looks, not for polling.
        """
        seen: set[str] = set()
        until = time.monotonic() + patience
        complete, cursor = True, 0
        with self._errors():
            while True:
                cursor, keys = self._redis.scan(cursor, match="job:*", count=1000, _type="string")
                seen.update(id for key in keys if valid_id(id := key.removeprefix("job:")))
                if cursor == 0:
                    break
                if len(seen) >= max_ids or time.monotonic() > until:
                    complete = False
                    break
        found = [(id, status) for id, status in self.get(sorted(seen)[:max_ids]).items() if status is not None]
        found.sort(key=lambda job: job[1].updated_at or datetime.min.replace(tzinfo=UTC), reverse=True)
        return Recent(found[:limit], complete and len(found) <= limit)

    def check(self) -> None:
        """Nothing if Redis can be used; raises Unavailable."""
        with self._errors():
            self._redis.ping()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except redis.AuthenticationError as err:
            raise Unavailable(
                SERVICE, f"{self.address} refuses the login (REDIS_USERNAME, REDIS_PASSWORD): {plain(err)}"
            ) from err
        except redis.RedisError as err:
            text = plain(err)
            raise Unavailable(SERVICE, text if self.address in text else f"{self.address}: {text}") from err


def _key(job_id: str) -> str:
    return "job:" + job_id


def _document(status: str, message: str, progress: int = 0) -> str:
    return json.dumps(
        {
            "status": status,
            "progress": progress,
            "message": message,
            "result_url": "",
            "error_msg": "",
            "updated_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        separators=(",", ":"),
    )
