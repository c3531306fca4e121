"""The worker of grid.py: it runs the program of each job in a directory of its own."""

import asyncio
import base64
import io
import json
import os
import re
import shutil
import signal
import socket
import struct
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from gridwire import (
    ACCEPT, ACK_JOB, ASSIGN_JOB, CANCEL, CREDIT, EXEC, FEATURES, HELLO_WORKER, MAX_FRAME, RENEW, RESULT_ACK, WELCOME,
    ZERO, Peer, dump, keep_connected, members, result,
)

RENEWAL = 10
DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|CLOCK\$|(COM|LPT)[0-9¹²³])(\..*)?", re.IGNORECASE)


@dataclass(eq=False)
class Run:
    attempt: UUID
    task: asyncio.Task | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    silent: bool = False  # its result is of no use to the leader
    accepted: bool = False


class Rejected(Exception):
    """A request cannot be run."""


class Worker:
    def __init__(self, options):
        self.options, self.id = options, uuid4()
        self.slots = max(1, int(os.environ.get("WORKER_MAX_PAR") or 4))
        self.running: dict[UUID, Run] = {}
        self.results: dict[UUID, tuple[float, bytes]] = {}  # of the last 30 minutes, oldest first
        self.unsent: dict[UUID, tuple[UUID, bytes]] = {}  # attempts and results that the leader has not got
        self.peer: Peer | None = None
        self.seen = self.limit = 0  # jobs that came over this connection, and that may come in all

    def hello(self):
        told = {"Proto": 2, "Features": FEATURES, "MaxParallel": self.slots, "Host": socket.gethostname(), "Running": self.in_hand()}
        return dict(type=HELLO_WORKER, msg=self.id, subject=self.options.pattern, payload=dump(told) if self.options.features else b"")

    def in_hand(self):
        return [{"JobId": str(job), "AttemptId": str(run.attempt)} for job, run in self.running.items() if run.attempt != ZERO]

    def begin(self, peer):
        self.peer, self.seen, self.limit = peer, 0, 0
        self.give_credit(self.slots - len(self.running))
        for job, (attempt, payload) in list(self.unsent.items()):
            self.send_result(job, attempt, payload)

    def give_credit(self, count):
        if count and self.peer:
            self.limit += count
            self.peer.send(CREDIT, msg=uuid4(), payload=struct.pack("<i", count))

    def take(self, peer, frame):
        if frame.type == WELCOME and "accept" in peer.features:
            renewing = asyncio.create_task(self.renew(peer))
            peer.renewing = renewing  # the loop itself does not keep it
        elif frame.type == ASSIGN_JOB:
            self.seen += 1
            self.assigned(frame.msg, frame.corr, frame.payload)
        elif frame.type == CANCEL and "cancel" in peer.features:
            run = self.running.get(frame.corr)
            if run and run.attempt == frame.msg:
                run.silent = members(frame.payload).get("reason") == "lost"
                run.stop.set()
        elif frame.type == RESULT_ACK and "resultack" in peer.features:
            for at in range(0, len(frame.payload), 16):
                self.unsent.pop(UUID(bytes_le=frame.payload[at : at + 16]), None)

    def assigned(self, job, attempt, payload):
        while self.results and next(iter(self.results.values()))[0] < time.monotonic() - 30 * 60:
            del self.results[next(iter(self.results))]
        run = self.running.get(job)
        if run and run.silent:  # the attempt before was lost, and its program is still being stopped
            run.task.add_done_callback(lambda _: self.assigned(job, attempt, payload))
        elif run:  # it is not run twice: the new attempt takes the place of the old one
            run.attempt, run.accepted = attempt, False
            self.accept(job)
            self.give_credit(1)
        elif job in self.results:
            self.send_result(job, attempt, self.results[job][1])
            self.give_credit(1)
        else:
            run = self.running[job] = Run(attempt)
            run.task = asyncio.create_task(self.run(job, run, payload))
            asyncio.get_running_loop().call_later(0.25, self.accept, job)

    def accept(self, job):
        run = self.running.get(job)
        if run and not run.accepted and self.peer and "accept" in self.peer.features and run.attempt != ZERO:
            run.accepted = True
            self.peer.send(ACCEPT, msg=run.attempt, corr=job)

    async def renew(self, peer):
        while not peer.writer.is_closing():
            await asyncio.sleep(RENEWAL)
            if peer is self.peer:
                peer.send(RENEW, msg=uuid4(), payload=dump({"Running": self.in_hand(), "Seen": self.seen, "Limit": self.limit}))

    async def run(self, job, run, payload):
        request = {"JobId": str(job)}
        try:
            request = members_as_written(payload)
            done = await self.execute(request, run)
        except Rejected as error:
            done = result(request, "FAILED", Stderr=f"{error}", Reason="rejected", Message=f"{error}")
        except Exception as error:
            done = result(request, "FAILED", Stderr=f"{error!r}", Reason="error", Message=f"{error!r}")
        if len(done) > MAX_FRAME - 39 - 44 - len(request.get("ClientId", "")):
            text = "the output and the files that the program has made are too large for a result"
            done = result(request, "FAILED", Stderr=text, Reason="output_limit", Message=text)
        del self.running[job]
        if not run.silent:
            if not run.stop.is_set():
                self.results[job] = time.monotonic(), done
            self.send_result(job, run.attempt, done)
        self.give_credit(1)

    def send_result(self, job, attempt, payload):
        self.unsent[job] = attempt, payload
        if self.peer and not self.peer.writer.is_closing():
            self.peer.send(ACK_JOB, msg=attempt, corr=job, payload=payload)
            if "resultack" not in self.peer.features:
                del self.unsent[job]

    async def execute(self, request, run):
        """Runs the program of a job in a directory of its own, and returns the result."""
        program = f"{request['ExecName']}.exe"
        if not EXEC.fullmatch(request["ExecName"]) or not (Path(self.options.exe_dir) / program).is_file():
            raise Rejected(f"there is no {program} in {self.options.exe_dir}")
        os.makedirs(self.options.jobs_dir, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{UUID(request['JobId']).hex}-", dir=self.options.jobs_dir) as made:
            home = Path(made)
            shutil.copy(Path(self.options.exe_dir) / program, home / program)
            (home / program).chmod(0o700)
            for file in request.get("Files", []):
                if file.get("Content") is None:
                    raise Rejected(f"file {file.get('Name')!r} has no Content, and this worker has no other way to get it")
                if (home / checked(file["Name"])).exists():
                    raise Rejected(f"file {file['Name']!r}: the name is taken")
                (home / file["Name"]).write_bytes(base64.b64decode(file["Content"], validate=True))
            before = {path: changed(path) for path in home.rglob("*")}
            child = await asyncio.create_subprocess_exec(
                f"./{program}", *request["Args"], cwd=home, start_new_session=True, env={"PATH": os.environ["PATH"], **request.get("Env", {})},
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
            try:
                ended = asyncio.create_task(child.communicate())
                stopping = asyncio.create_task(run.stop.wait())
                limit = request.get("TimeoutMs", 0) / 1000 or None
                await asyncio.wait((ended, stopping), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
                reason = None if ended.done() else "canceled" if run.stop.is_set() else "timeout"
                if reason:
                    kill(child, signal.SIGTERM)
                    await asyncio.wait((ended,), timeout=10)
                    kill(child, signal.SIGKILL)
                out, err = await ended
            finally:
                stopping.cancel()
                kill(child, signal.SIGKILL)  # also what it has left running
            reason = reason or (None if child.returncode == 0 else "exit")
            new = [path for path in sorted(home.rglob("*")) if path.is_file() and not path.is_symlink() and before.get(path) != changed(path)]
            return result(request, "FAILED" if reason else "OK", Stdout=out.decode(errors="replace"), Stderr=err.decode(errors="replace"),
                          OutputArchive=zipped(home, new), ExitCode=child.returncode, **({"Reason": reason} if reason else {}))


def members_as_written(payload: bytes) -> dict:
    """The members of a request, in the case in which they must be written."""
    members(payload)
    return {name: value for name, value in json.loads(payload).items() if value is not None}


def checked(name: str) -> str:
    """The name of a file, which must be one of a single directory on every system."""
    bad = ".." in name or name == "." or name[-1:] in ". " or re.search(r'[/\\<>:"|?*\x00-\x1f\x7f]', name) or DEVICE.fullmatch(name)
    if bad or not 1 <= len(name.encode()) <= 255 or name.lower() in ("result.zip", ".grid"):
        raise Rejected(f"file {name!r}: not a name that a file may have")
    return name


def changed(path: Path):
    about = path.lstat()
    return about.st_mtime_ns, about.st_size, about.st_ino


def zipped(home: Path, files: list[Path]) -> str | None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in files:
            out.write(path, path.relative_to(home).as_posix())
    return base64.b64encode(archive.getvalue()).decode() if files else None


def kill(child, sign):
    try:
        os.killpg(child.pid, sign)
    except ProcessLookupError:
        pass


async def work(options):
    worker = Worker(options)
    main = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, main.cancel)
    await keep_connected(options, worker.hello, worker.begin, worker.take)
