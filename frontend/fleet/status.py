"""The status of jobs in Redis: the key job:ID of status/SPEC.md."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from fleet.config import Settings
from fleet.errors import Unavailable, plain
from fleet.names import valid_id
from fleet.redis_url import Address

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
SILENT_SECONDS = 15  # after that long without a word others take a worker's jobs


@dataclass(frozen=True)
class Status:
    """What a frontend may know of a job."""

    status: str  # one of STATUSES
    progress: int  # 0 to 100
    message: str = ""
    error_msg: str = ""  # the cause once failed
    updated_at: datetime | None = None  # UTC; None if it does not say
    silent: int = 0  # seconds since its worker was last heard, 0 while it is

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
        self.address = str(settings.redis)
        self._settings = settings.redis

    @cached_property
    def _redis(self) -> redis.Redis | redis.RedisCluster:
        return _connect(self._settings)  # here, because a cluster is asked at once

    def get(self, ids: Sequence[str]) -> dict[str, Status | None]:
        """The statuses of jobs; None for one whose status cannot be read, no
        entry for one of which nothing is known."""
        found: dict[str, Status | None] = {}
        with self._errors():
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                keys = [_key(id) for id in batch]
                # In a cluster each key is in a slot of its own.
                cluster = isinstance(self._redis, redis.RedisCluster)
                values = self._redis.mget_nonatomic(keys) if cluster else self._redis.mget(keys)
                found |= {id: parse(v) for id, v in zip(batch, values, strict=True) if v is not None}
            for id, seconds in self._silent([id for id, s in found.items() if s and s.status == "processing"]):
                found[id] = replace(found[id], silent=seconds)
        return found

    def _silent(self, ids: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Which of the running jobs have a worker that is silent, and for how long."""
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            with self._redis.pipeline(transaction=False) as pipe:
                for id in batch:
                    pipe.hget(f"{{job:{id}}}:claim", "seen")
                seen = pipe.execute(raise_on_error=False)
            now = self._now()
            for id, ms in zip(batch, seen, strict=True):
                if isinstance(ms, str) and re.fullmatch("[0-9]{1,15}", ms) and now - int(ms) / 1000 > SILENT_SECONDS:
                    yield id, int(now - int(ms) / 1000)

    def _now(self) -> float:
        """The clock of Redis, in seconds since 1970: the one for all workers."""
        answer: Any
        if isinstance(self._redis, redis.RedisCluster):
            answer = self._redis.time(target_nodes=self._redis.get_primaries()[0])
            answer = next(iter(answer.values())) if isinstance(answer, dict) else answer
        else:
            answer = self._redis.time()
        return answer[0] + answer[1] / 1e6

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
        with self._errors(), self._redis.pipeline(transaction=True) as pipe:
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
        complete = True
        with self._errors():
            for page in self._pages():
                if len(seen) >= max_ids or time.monotonic() > until:
                    complete = False
                    break
                seen.update(id for key in page if valid_id(id := key.removeprefix("job:")))
        found = [(id, status) for id, status in self.get(sorted(seen)[:max_ids]).items() if status is not None]
        found.sort(key=lambda job: job[1].updated_at or datetime.min.replace(tzinfo=UTC), reverse=True)
        return Recent(found[:limit], complete and len(found) <= limit)

    def _pages(self) -> Iterator[list[str]]:
        """The keys of statuses, a part at a time and from each node of a cluster;
        some may come twice."""
        cluster = isinstance(self._redis, redis.RedisCluster)
        for node in self._redis.get_primaries() if cluster else [None]:
            where = {"target_nodes": node} if node else {}
            cursor: Any = 0
            while True:
                cursor, keys = self._redis.scan(cursor, match="job:*", count=1000, _type="string", **where)
                yield keys
                if node:
                    cursor = cursor[node.name]
                if cursor == 0:
                    break

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
        except (redis.RedisError, RedisClusterException) as err:
            text = plain(err)
            raise Unavailable(SERVICE, text if self.address in text else f"{self.address}: {text}") from err


def _connect(address: Address) -> redis.Redis | redis.RedisCluster:
    """A client for the Redis at an address."""
    common = {"username": address.username or None, "password": address.password or None, "ssl": address.tls}
    timeouts = {"socket_connect_timeout": CONNECT_TIMEOUT, "socket_timeout": ANSWER_TIMEOUT, "protocol": 2}
    text = {"encoding_errors": "replace", "decode_responses": True}
    # Once more, at once: connections in the pool die with a Redis that restarts or
    # fails over. Not after a timeout: the page would wait twice as long.
    again = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError, redis.ReadOnlyError))
    options = {**common, **timeouts, **text, "retry": again}
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        return redis.RedisCluster(startup_nodes=nodes, **options)
    if address.kind == "sentinel":
        login = {"username": address.sentinel_username or None, "password": address.sentinel_password or None}
        sentinels = Sentinel(address.hosts, sentinel_kwargs={**timeouts, **login, "ssl": address.tls})
        return sentinels.master_for(address.primary, db=address.db, **options)
    (host, port), *_ = address.hosts
    return redis.Redis(host=host, port=port, db=address.db, **options)


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
