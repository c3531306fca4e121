import json
import random
import re
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fleet.errors import Unavailable
from fleet.status import Board, Status, parse

GOOD = {
    "status": "processing",
    "progress": 41,
    "message": "Page 5/12 analyzing...",
    "result_url": "",
    "error_msg": "",
    "updated_at": "2026-02-12T06:35:00Z",
}


@pytest.fixture
def board(fleet):
    return Board(fleet.settings)


def test_f61_the_contracts_example_is_read():
    moment = datetime(2026, 2, 12, 6, 35, tzinfo=UTC)
    assert parse(json.dumps(GOOD)) == Status("processing", 41, "Page 5/12 analyzing...", "", moment)


@pytest.mark.parametrize(
    "bad", ["", "{", "null", "[]", '"queued"', "{}", '{"status":"running"}', '{"status":["queued"]}', "[" * 5000]
)
def test_f61_what_is_no_status_is_none(bad):
    assert parse(bad) is None


def test_f61_a_status_of_absurd_length_is_not_read():
    assert parse(json.dumps(GOOD | {"message": "x" * 70_000})) is None
    assert len(parse(json.dumps(GOOD | {"message": "x" * 60_000})).message) == 4096


@pytest.mark.parametrize(
    ("value", "want"),
    [(-5, 0), (250, 100), (41.9, 41), (True, 0), ("41", 0), (None, 0), (1e400, 100), (float("nan"), 0)],
)
def test_f61_progress_is_from_0_to_100(value, want):
    assert parse(json.dumps(GOOD | {"progress": value})).progress == want


@pytest.mark.parametrize("value", ["yesterday", 5, None, "", "9999-12-31T23:59:59-23:59"])
def test_f61_a_status_without_a_usable_time_has_none(value):
    assert parse(json.dumps(GOOD | {"updated_at": value})).updated_at is None


def test_f61_no_bytes_break_the_reader():
    rng = random.Random(61)
    text = json.dumps(GOOD)
    for _ in range(5000):
        mutant = list(text)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(mutant))
            mutant[at : at + rng.randint(0, 5)] = rng.choices(
                '{}[]",:\\u0d8e+-.tfn\x00é\U0001f600', k=rng.randint(0, 4)
            )
            mutant = mutant or ["{"]
        status = parse("".join(mutant))
        assert status is None or (0 <= status.progress <= 100 and status.message.encode() is not None)


def test_f21_the_worker_of_a_running_job_may_be_silent(board, fleet):
    def job(id, seen, **changed):
        fleet.db.set(f"job:{id}", json.dumps(GOOD | changed))
        fleet.db.hset(f"{{job:{id}}}:claim", "seen", seen)

    now = int(time.time() * 1000)
    job("silent", now - 40_000)
    job("heard", now)
    job("odd", "x" * 100)
    job("ended", now - 40_000, status="completed")
    fleet.db.set("job:unknown", json.dumps(GOOD))
    fleet.db.set("{job:unknown}:claim", "of another type")
    found = board.get(["silent", "heard", "odd", "ended", "unknown"])
    assert 40 <= found.pop("silent").silent < 100
    assert [s.silent for s in found.values()] == [0, 0, 0, 0]


def test_f61_queueing_writes_the_contracts_document_for_a_day(board, fleet, tmp_path):
    board.queue("a")
    assert 86390 <= fleet.db.ttl("job:a") <= 86400
    (tmp_path / "x.pdf").write_bytes(b"x")
    other = fleet.submit(tmp_path / "x.pdf").stdout.strip()
    ours, theirs = (re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "T", fleet.db.get(f"job:{id}")) for id in ("a", other))
    assert ours == theirs, "not what batchfleet submit writes"


def test_f61_queueing_leaves_a_known_job_alone(board, fleet):
    fleet.put_status("a", status="processing", progress=7)
    board.queue("a")
    assert fleet.status("a")["status"] == "processing"


@pytest.mark.parametrize(
    ("before", "withdrawn", "after"),
    [("queued", True, "canceled"), ("processing", False, "processing"), ("completed", False, "completed"),
     ("canceled", True, "canceled"), (None, True, None)],
)  # fmt: skip
def test_f61_only_a_waiting_job_is_withdrawn(board, fleet, before, withdrawn, after):
    if before:
        fleet.put_status("a", status=before)
    assert board.withdraw("a") is withdrawn
    assert fleet.status("a").get("status") == after


def test_f61_known_unreadable_and_unknown_jobs_are_told_apart(board, fleet):
    fleet.put_status("a", progress=3)
    fleet.db.set("job:b", "junk")
    fleet.db.set("job:raw", b"\xff\xfe")
    fleet.db.hset("job:hash", "a", "b")
    found = board.get(["a", "b", "raw", "hash", "none"])
    assert found["a"].progress == 3
    assert (found["b"], found["raw"]) == (None, None)
    assert "none" not in found and "hash" not in found


def test_f61_recent_jobs_come_newest_first_and_bounded(board, fleet):
    for i in range(30):
        fleet.put_status(f"j{i}", updated_at=f"2026-02-12T06:35:{i:02}Z")
    fleet.db.set("job:bad id", "{}")
    fleet.db.set("job:junk", "junk")
    fleet.db.hset("{job:j1}:detail", "kind", "pdf")
    recent = board.recent(10)
    assert [id for id, _ in recent.jobs] == [f"j{i}" for i in range(29, 19, -1)]
    assert not recent.complete
    assert board.recent(30).complete
    assert len(board.recent(200, max_ids=5).jobs) <= 5


def test_f61_a_look_at_a_large_redis_ends_in_time(board, fleet):
    pipe = fleet.db.pipeline()
    for i in range(20_000):
        pipe.set(f"other:{i}", "x")
    pipe.execute()
    assert not board.recent(10, patience=0).complete


def test_f61_a_redis_that_hangs_is_given_up_within_five_seconds(board, fleet):
    board.check()
    fleet.redis.freeze()
    for call in (lambda: board.get(["a"]), lambda: board.queue("a"), lambda: board.recent(5), board.check):
        began = time.monotonic()
        with pytest.raises(Unavailable, match="Redis"):
            call()
        assert time.monotonic() - began < 5
    fleet.redis.thaw()
    board.check()


def test_f61_redis_may_go_and_come_back(board, fleet):
    board.check()
    fleet.redis.kill()
    with pytest.raises(Unavailable):
        board.check()
    fleet.redis.start()
    board.check()


def test_f61_a_redis_with_a_password_refuses_and_takes_the_login(fleet):
    fleet.db.config_set("requirepass", "secret")
    with pytest.raises(Unavailable, match="REDIS_PASSWORD"):
        Board(fleet.settings).check()
    Board(replace(fleet.settings, redis=replace(fleet.settings.redis, password="secret"))).check()
