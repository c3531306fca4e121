import json
from dataclasses import replace

import pytest
import redis

from fleet.config import ConfigError, read
from fleet.errors import Unavailable
from fleet.redis_url import parse
from fleet.status import Board
from tests.conftest import REPOSITORY, eventually, free_port

ADDRESSES = json.loads((REPOSITORY / "redisdb/testdata/redis_urls.json").read_text())
PROJECT = {"GCP_PROJECT_ID": "p"}


@pytest.mark.parametrize("want", ADDRESSES, ids=lambda want: repr(want["url"]))
def test_f28_addresses_are_read_as_the_workers_read_them(want):
    if "wrong" in want:
        with pytest.raises(ValueError, match=want["wrong"]) as caught:
            parse(want["url"])
        assert "secret" not in str(caught.value)
        return
    got = parse(want["url"])
    hosts = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in got.hosts]
    assert {"url": want["url"], "hosts": hosts} | {
        name: value for name, value in vars(got).items() if value and name != "hosts"
    } == want
    assert all(text.find(password) < 0 for text in (str(got), repr(got)) for password in (got.password,) if password)


def test_f28_what_contradicts_the_url_is_said_without_it():
    url = "redis://u:secret@h:1/2"
    assert read({**PROJECT, "REDIS_URL": url, "REDIS_HOST": "h", "REDIS_DB": "2"}).redis == parse(url)
    wrong = {"REDIS_HOST": "g", "REDIS_PORT": "2", "REDIS_DB": "0", "REDIS_USERNAME": "v", "REDIS_PASSWORD": "hidden"}
    with pytest.raises(ConfigError) as caught:
        read({**PROJECT, "REDIS_URL": url, "REDIS_TLS": "1", **wrong})
    for name in [*wrong, "REDIS_TLS"]:
        assert f"{name} contradicts REDIS_URL: leave one of the two out" in caught.value.mistakes
    assert "secret" not in str(caught.value) and "hidden" not in str(caught.value)
    with pytest.raises(ConfigError, match="REDIS_HOST contradicts"):
        read({**PROJECT, "REDIS_URL": "redis+sentinel://a/m", "REDIS_HOST": "a"})
    with pytest.raises(ConfigError, match="REDIS_URL: it is no address"):
        read({**PROJECT, "REDIS_URL": "h:6379"})
    assert read({**PROJECT, "REDIS_URL": "redis://h", "REDIS_PASSWORD": "pw"}).redis.password == "pw"


def board_at(fleet, url: str) -> Board:
    return Board(replace(fleet.settings, redis=parse(url)))


def use(board: Board) -> None:
    ids = ["a", "b", "c"]
    for id in ids:
        board.queue(id)
    assert {id: status.status for id, status in board.get([*ids, "none"]).items()} == dict.fromkeys(ids, "queued")
    assert board.withdraw("b")
    assert {id for id, _ in board.recent(10).jobs} == set(ids)
    assert board.get(["b"])["b"].status == "canceled"


def test_f28_sentinels_name_the_primary_also_after_a_failover(fleet, tmp_path):
    replica, sentinel = free_port(), free_port()
    (tmp_path / "replica").mkdir()
    of = ("--replicaof", f"127.0.0.1 {fleet.redis_port}", "--save", "", "--dir", str(tmp_path / "replica"))
    fleet.run("replica", ["redis-server", "--port", str(replica), "--bind", "127.0.0.1", *of], port=replica)
    conf = tmp_path / "sentinel.conf"
    conf.write_text(
        f"port {sentinel}\nbind 127.0.0.1\ndir {tmp_path}\nsentinel monitor main 127.0.0.1 {fleet.redis_port} 1\n"
        "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
    )
    fleet.run("sentinel", ["redis-sentinel", str(conf)], port=sentinel)
    dead = free_port()
    board = board_at(fleet, f"redis+sentinel://127.0.0.1:{dead},127.0.0.1:{sentinel}/main")
    use(board)
    # The Sentinel hears of the replica from the primary; without it there is no failover.
    eventually(lambda: fleet.db.info("replication")["connected_slaves"] == 1, "the replica is connected")
    eventually(lambda: fleet.db.wait(1, 100) == 1, "the replica has it all")
    fleet.redis.kill()

    def back() -> bool:
        try:
            board.queue("d")
            return board.get(["a"])["a"] is not None
        except Unavailable:
            return False

    eventually(back, "the replica is the primary", 90)


def test_f28_a_cluster_is_a_redis_like_any_other(fleet, tmp_path):
    port = free_port()
    while port > 50_000:  # its second port is 10000 higher
        port = free_port()
    (tmp_path / "node").mkdir()
    args = ("--cluster-enabled", "yes", "--save", "", "--dir", str(tmp_path / "node"))
    url = f"redis+cluster://127.0.0.1:{port}"
    with pytest.raises(Unavailable, match=f"cluster 127.0.0.1:{port}"):
        board_at(fleet, url).check()
    fleet.run("node", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", *args], port=port)
    node = redis.Redis(port=port, decode_responses=True)
    node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    eventually(lambda: "cluster_state:ok" in str(node.execute_command("CLUSTER", "INFO")), "the cluster is up")
    use(board_at(fleet, url))
