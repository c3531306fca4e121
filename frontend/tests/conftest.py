"""The real parts that the tests run against, each on a free port of loopback.

Nothing is skipped: a part that is missing fails the tests that need it.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
import requests
from streamlit.testing.v1 import AppTest

from fleet import config, services

FRONTEND = Path(__file__).resolve().parents[1]
REPOSITORY = FRONTEND.parent
DOCUMENTS = REPOSITORY / "pdf" / "testdata"
TOPIC = "projects/local-dev/topics/pdf-processing-topic"
SUBSCRIPTION = "projects/local-dev/subscriptions/pdf-processing-subscription"


def eventually(holds: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Wait until something holds; fail the test when it does not."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"after {seconds} s still not: {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Process:
    """A process of the fleet, which a test may kill, freeze and start again."""

    def __init__(self, args: list[str], env: dict[str, str], log: Path, port: int = 0, cwd: Path | None = None):
        self.args, self.env, self.log, self.port, self.cwd = args, env, log, port, cwd
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(self.args, env=self.env, cwd=self.cwd, stdout=log, stderr=log)
        if self.port:
            eventually(lambda: listens(self.port) or self.popen.poll() is not None, f"{self.args[0]} listens")
        assert self.popen.poll() is None, self.log.read_text()

    def kill(self) -> None:
        self.popen.kill()  # works on a frozen process too
        self.popen.wait()

    def freeze(self) -> None:
        self.popen.send_signal(signal.SIGSTOP)
        # It goes on until its last thread has noticed.
        os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        self.popen.send_signal(signal.SIGCONT)


def go_build(package: str, target: Path) -> Path:
    go = shutil.which("go")
    assert go, "go is not installed: the tests run against the real workers and emulator"
    subprocess.run([go, "build", "-o", target, package], cwd=REPOSITORY, check=True)
    return target


@pytest.fixture(scope="session")
def batchfleet(tmp_path_factory) -> Path:
    """The binary of emulator and worker."""
    return go_build("./cmd/batchfleet", tmp_path_factory.mktemp("bin") / "batchfleet")


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory) -> Path:
    return go_build("github.com/fsouza/fake-gcs-server", tmp_path_factory.mktemp("bin") / "fake-gcs-server")


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory) -> Path:
    """A server of S3, which the Go tests use, too."""
    folder = tmp_path_factory.mktemp("s3test")
    subprocess.run([REPOSITORY / "storage" / "s3" / "s3test" / "setup.sh", folder], check=True)
    return folder / "versitygw"


class Fleet:
    """A Redis, an emulator and a directory, and workers on request."""

    def __init__(self, binary: Path, folder: Path):
        self.binary, self.folder = binary, folder
        self.store = folder / "store"
        self.store.mkdir()
        self.processes: list[Process] = []
        self.redis_port, self.emulator_port = free_port(), free_port()
        self.env = {
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(self.redis_port),
            "PUBSUB_EMULATOR_HOST": f"127.0.0.1:{self.emulator_port}",
            "GCP_PROJECT_ID": "local-dev",
            "LOCAL_STORAGE_PATH": str(self.store),
        }
        server = shutil.which("redis-server")
        assert server, "redis-server is not installed: apt-get install redis-server"
        self.redis = self.run(
            "redis",
            [server, "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
            port=self.redis_port,
        )
        self.emulator = self.run(
            "emulator",
            [
                *(str(binary), "emulator", "--addr", self.env["PUBSUB_EMULATOR_HOST"]),
                *("--topic", TOPIC, "--subscription", SUBSCRIPTION),
            ],
            port=self.emulator_port,
        )
        self.db = redis.Redis(port=self.redis_port, decode_responses=True)
        self.settings = config.read(self.env)

    def run(self, name: str, args: list[str], port: int = 0, cwd: Path | None = None, **env: str) -> Process:
        process = Process(args, {**os.environ, **self.env, **env}, self.folder / f"{name}.log", port, cwd)
        self.processes.append(process)
        return process

    def worker(self, **env: str) -> Process:
        return self.run("worker", [str(self.binary), "worker"], **env)

    def mock_worker(self, pages: str = "3", seconds: str = "0.01", **env: str) -> Process:
        return self.worker(PROCESSOR="mock", MOCK_PAGES=pages, MOCK_PAGE_SECONDS=seconds, **env)

    def submit(self, *args: str | Path) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.binary, "submit", *args],
            env={**os.environ, **self.env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def put_status(self, job_id: str, **fields) -> None:
        """Write a status as workers do."""
        document = {"status": "queued", "progress": 0, "message": "", "result_url": "", "error_msg": ""}
        self.db.set(f"job:{job_id}", json.dumps(document | {"updated_at": "2026-02-12T06:35:00Z"} | fields), ex=86400)

    def status(self, job_id: str) -> dict:
        return json.loads(self.db.get(f"job:{job_id}") or "{}")

    def put_object(self, name: str, content: bytes | str | dict) -> Path:
        path = self.store / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def messages(self) -> list[dict]:
        """Take all messages out of the queue."""
        url = f"http://{self.env['PUBSUB_EMULATOR_HOST']}/v1/{SUBSCRIPTION}:pull"
        body = {"maxMessages": 1000, "returnImmediately": True}
        return requests.post(url, json=body, timeout=10).json().get("receivedMessages", [])


@pytest.fixture
def fleet(batchfleet: Path, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(batchfleet, tmp_path)
    yield fleet
    for process in reversed(fleet.processes):
        process.kill()


@pytest.fixture
def page(fleet: Fleet, monkeypatch) -> Callable[..., AppTest]:
    """Opens the page as a new visitor."""
    for name, value in fleet.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(services, "FRESH_SECONDS", 0)  # what a test does to a service is seen at once
    services.shared.cache_clear()

    def open_page(*jobs: str) -> AppTest:
        at = AppTest.from_file(str(FRONTEND / "page.py"), default_timeout=60)
        if jobs:
            at.query_params["job"] = list(jobs)
        return at.run()

    yield open_page
    services.shared.cache_clear()
