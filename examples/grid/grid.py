#!/usr/bin/env python3
"""A leader, a worker and a client of the grid: a second implementation of grid/SPEC.md, to read and to test with.

    python3 grid.py leader PORT
    python3 grid.py worker HOST PORT [PATTERN] [--exe-dir DIR]
    python3 grid.py client HOST PORT CLIENTID [DESIRED] [EXEC [ARGUMENT ...]]

They speak the original protocol. With --features they list some extensions as well. Nothing is kept on disk.
"""

import argparse
import asyncio
import base64
import io
import os
import random
import re
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from gridwire import *  # noqa: F403 - the other half of this program

LEASE, RENEWAL, MAX_ATTEMPTS = 30, 10, 6
DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|CLOCK\$|(COM|LPT)[0-9¹²³])(\..*)?", re.IGNORECASE)


def log(*words):
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def result(request: dict, status: str, **more) -> bytes:
    """A JobResult. Its first members are those of the original protocol."""
    first = {name: request.get(name, "") for name in ("JobId", "ClientId", "ExecName")}
    return dump(first | {"Status": status, "Stdout": "", "Stderr": "", "OutputArchive": None} | more)


# ---- leader


@dataclass(eq=False)
class Job:
    id: UUID
    client: str
    exec: str = ""
    request: bytes | None = None  # None: only its result is known
    source: Peer | None = None  # the connection that has submitted it
    worker: Peer | None = None  # who runs it
    attempt: UUID = ZERO
    attempts: int = 0
    overdue: asyncio.TimerHandle | None = None  # when the attempt counts as lost
    result: bytes | None = None
    delivered: bool = False


class Leader:
    def __init__(self, features: list[str]):
        self.id, self.offered = uuid4(), features
        self.jobs: dict[UUID, Job] = {}
        self.queue: list[Job] = []
        self.caps: dict[str, int] = {}  # by ClientId
        self.clients: list[Peer] = []  # newest last
        self.workers: list[Peer] = []

    async def serve(self, reader, writer):
        """Speaks with one client or worker until its connection ends."""
        peer = Peer(reader, writer)
        peer.name = "%s:%s" % writer.get_extra_info("peername")[:2]
        try:
            async with asyncio.timeout(10):
                hello = await read(reader)
            if hello is None:
                return
            take = self.greet(peer, hello)
            log(peer.name, "is here")
            async for frame in peer.frames():
                take(peer, frame)
                self.pump()
        except (ProtocolError, ValueError, OSError) as error:
            log(f"{peer.name}: {error or 'no hello within 10 s'}")
        finally:
            writer.close()
            self.forget(peer)
            log(peer.name, "is gone")

    def greet(self, peer, hello):
        """Takes a hello, and returns what takes the frames after it."""
        config = members(hello.payload) if hello.type == HELLO_WORKER and hello.payload else {}
        if hello.type == HELLO_CLIENT:
            try:
                config = members(hello.payload)
                desired = int(config.get("desiredparallelism", 1))
            except ValueError:
                desired = 4
            if not CLIENT.fullmatch(hello.subject) or config.get("clientid", hello.subject) != hello.subject:
                raise ProtocolError("a bad name of a client")
            peer.client, peer.name = hello.subject, hello.subject
            self.caps[peer.client] = min(max(desired, 1), 10_000)
            self.clients.append(peer)
        elif hello.type == HELLO_WORKER:
            peer.id, peer.pattern, peer.name = hello.msg, hello.subject or "job.assign.*", f"worker {hello.msg}"
            if not is_pattern(peer.pattern):
                raise ProtocolError(f"pattern {peer.pattern!r} is none")
            peer.credit, peer.jobs = 0, {}
            self.workers.append(peer)
        else:
            raise ProtocolError(f"the first frame has type {hello.type}")
        if self.offered and config.get("features"):
            peer.features = set(self.offered) & set(config["features"])
            peer.send(WELCOME, msg=self.id, payload=dump({"Proto": 2, "LeaderId": str(self.id), "Features": sorted(peer.features),
                                                          "Durable": False, "LeaseMs": LEASE * 1000}))
        if hello.type == HELLO_WORKER:
            for run in config.get("running", []):
                self.resume(peer, UUID(run["jobid"]), UUID(run["attemptid"]))
            return self.from_worker
        for job in list(self.jobs.values()):
            if job.client == peer.client and job.result is not None and not job.delivered:
                self.deliver(job)
        return self.from_client

    def forget(self, peer):
        if peer in self.clients:
            self.clients.remove(peer)
        if peer in self.workers:
            self.workers.remove(peer)
            for job in list(peer.jobs.values()):
                self.lost(job, job.attempt)
            self.pump()

    # What clients send

    def from_client(self, peer, frame):
        if frame.type == SUBMIT_JOB:
            error = self.submit(peer, frame)
            if error and "error" in peer.features:
                peer.send(ERROR, msg=uuid4(), corr=frame.msg, payload=dump({"Code": error[0], "Message": error[1]}))
            elif not error and "submitack" in peer.features:
                peer.send(SUBMIT_ACK, payload=frame.msg.bytes_le)
        elif frame.type == RESULT_ACK and "resultack" in peer.features:
            for at in range(0, len(frame.payload), 16):
                job = self.jobs.get(UUID(bytes_le=frame.payload[at : at + 16]))
                if job and job.client == peer.client:
                    job.delivered = True
        elif frame.type == CANCEL and "cancel" in peer.features:
            job = self.jobs.get(frame.corr)
            if job and job.client == peer.client:
                self.cancel(job)

    def submit(self, peer, frame):
        """Queues a job, and returns the code and text of what is wrong with it."""
        try:
            request = members(frame.payload)
            if UUID(request["jobid"]) != frame.msg or frame.msg == ZERO:
                raise ValueError("JobId: not that of the frame")
            if request["clientid"] != peer.client:
                raise ValueError("ClientId: not that of the hello")
            if frame.subject != "job.submit." + request["execname"] or not EXEC.fullmatch(request["execname"]):
                raise ValueError("ExecName: not a name, or not that of the subject")
            if "array" in request:
                raise ValueError("Array: this leader takes none")
            if len(frame.payload) > MAX_FRAME - 39 - 11 - len(request["execname"]) - 37 - 71:
                raise ValueError("the request is too large")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return "INVALID", f"{error}"
        job = self.jobs.get(frame.msg)
        if job is None:
            job = self.jobs[frame.msg] = Job(frame.msg, peer.client, request["execname"], frame.payload, peer)
            self.queue.append(job)
        elif job.client != peer.client or job.request not in (frame.payload, None):
            return "CONFLICT", "another job has this id"
        else:
            job.source = peer
            if job.result is not None:
                self.deliver(job)
        return None

    def cancel(self, job):
        if job in self.queue:
            self.queue.remove(job)
            self.end(job, self.failure(job, "canceled", "canceled by its client"))
        elif job.worker and "cancel" in job.worker.features:
            job.worker.send(CANCEL, msg=job.attempt, corr=job.id, payload=dump({"Reason": "canceled"}))
        elif job.result is None:
            self.end(job, self.failure(job, "canceled", "canceled by its client"))

    # What workers send

    def from_worker(self, peer, frame):
        if frame.type == CREDIT:
            count = struct.unpack("<i", frame.payload)[0] if len(frame.payload) == 4 else 0 if frame.payload else 1
            peer.credit += min(max(count, 0), 10_000)
        elif frame.type == ACK_JOB:
            self.acknowledge(peer, frame)
            if "resultack" in peer.features:
                peer.send(RESULT_ACK, payload=frame.corr.bytes_le)
        elif frame.type == ACCEPT and "accept" in peer.features:
            self.resume(peer, frame.corr, frame.msg)
        elif frame.type == RENEW and "accept" in peer.features:
            for run in members(frame.payload).get("running", []):
                self.resume(peer, UUID(run["jobid"]), UUID(run["attemptid"]))
        elif frame.type == ERROR and "error" in peer.features and frame.corr in peer.jobs:
            self.lost(peer.jobs[frame.corr], frame.msg, failed=False)  # handed back

    def acknowledge(self, peer, frame):
        try:
            told = members(frame.payload)
            client, status = told["clientid"], told["status"]
        except (ValueError, KeyError):
            client, status = None, "FAILED"
        job = self.jobs.get(frame.corr)
        if job is None and client:  # from a time before this leader
            job = self.jobs[frame.corr] = Job(frame.corr, client)
        elif job is None or job.result is not None:
            return
        elif frame.msg != job.attempt if frame.msg != ZERO else job.worker is not peer:
            if frame.msg == ZERO or status != "OK":
                return
            if job.worker and "cancel" in job.worker.features:  # an earlier attempt was the first to succeed
                job.worker.send(CANCEL, msg=job.attempt, corr=job.id, payload=dump({"Reason": "lost"}))
        self.end(job, frame.payload if client else self.failure(job, "error", "its result cannot be read"))

    def resume(self, peer, id, attempt):
        """Gives an attempt that a worker runs its lease, or tells the worker that the attempt is not its own any more."""
        job = self.jobs.get(id)
        if job and job.result is None and job.attempt == attempt and job.worker in (None, peer):
            if job in self.queue:  # its connection was lost before
                self.queue.remove(job)
                self.give(job, peer, attempt)
            self.wait(job, LEASE)
        elif "cancel" in peer.features and job:
            peer.send(CANCEL, msg=attempt, corr=id, payload=dump({"Reason": "lost"}))

    # Jobs

    def pump(self):
        """Gives out what can be given: the oldest job first, unless its client has enough running or no worker is free."""
        running = Counter(job.client for worker in self.workers for job in worker.jobs.values())
        for job in list(self.queue):
            free = [w for w in self.workers if w.credit > 0 and matches(w.pattern, "job.assign." + job.exec)]
            if free and running[job.client] < self.caps.get(job.client, 1):
                worker = min(free, key=lambda w: (len(w.jobs), -w.credit))
                worker.credit -= 1
                running[job.client] += 1
                self.queue.remove(job)
                self.give(job, worker, uuid4() if "accept" in worker.features else ZERO)
                worker.send(ASSIGN_JOB, msg=job.id, corr=job.attempt, payload=job.request,
                            subject=f"job.assign.{job.exec}.{worker.id.hex}")
                if job.attempt != ZERO:
                    self.wait(job, min(2**job.attempts, 30))

    def give(self, job, worker, attempt):
        job.worker, job.attempt = worker, attempt
        worker.jobs[job.id] = job

    def wait(self, job, seconds):
        """Lets the attempt of a job be lost after so long, unless this is called again before."""
        if job.overdue:
            job.overdue.cancel()
        job.overdue = asyncio.get_running_loop().call_later(seconds, self.lost, job, job.attempt)

    def take_back(self, job):
        if job.overdue:
            job.overdue.cancel()
        if job.worker:
            del job.worker.jobs[job.id]
        job.worker = job.overdue = None

    def lost(self, job, attempt, failed=True):
        """Queues a job before others when its attempt was lost."""
        if job.worker is None or job.attempt != attempt:
            return
        self.take_back(job)
        job.attempts += failed
        if job.attempts < MAX_ATTEMPTS:
            self.queue.insert(0, job)
        else:
            self.end(job, self.failure(job, "dead_letter", f"lost {job.attempts} times"))
        self.pump()

    def failure(self, job, reason, message):
        names = {"JobId": str(job.id), "ClientId": job.client, "ExecName": job.exec}
        return result(names, "FAILED", Stderr=message, Reason=reason, Message=message)

    def end(self, job, payload):
        self.take_back(job)
        if job in self.queue:  # a late success
            self.queue.remove(job)
        job.result = payload
        self.deliver(job)

    def deliver(self, job):
        peers = [p for p in self.clients if p.client == job.client]
        if peers:
            peer = job.source if job.source in peers else peers[-1]
            peer.send(RESULT, msg=job.id, corr=job.id, subject=f"job.result.{job.client}.{job.id.hex}", payload=job.result)
            job.delivered = "resultack" not in peer.features


async def lead(options):
    leader = Leader(FEATURES if options.features else [])
    server = await asyncio.start_server(leader.serve, "127.0.0.1", options.port)
    log("listening on 127.0.0.1:%d" % server.sockets[0].getsockname()[1])
    await server.serve_forever()


# ---- the end of clients and workers


async def keep_connected(options, hello, begin, take):
    """Keeps a connection to the leader for ever: hello gives its first frame, begin is called after it, and take with each frame."""
    pause = 0.5
    while True:
        began = time.monotonic()
        try:
            peer = Peer(*await asyncio.open_connection(options.host, options.port))
            peer.send(**hello())
            begin(peer)
            async for frame in peer.frames():
                if frame.type == WELCOME and options.features:
                    peer.features = set(members(frame.payload).get("features", []))
                elif frame.type == ERROR and frame.corr == ZERO:
                    log(f"the leader says {frame.payload.decode()}")
                take(peer, frame)
            log("the leader has closed the connection")
        except (ProtocolError, OSError) as error:
            log(f"connection to {options.host}:{options.port}: {error}")
        if time.monotonic() - began > 30:
            pause = 0.5
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))
        pause = min(2 * pause, 30)


# ---- worker


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


# ---- client


async def submit(options):
    """Submits the jobs, prints their results, and returns whether all of them have succeeded."""
    rest = list(options.rest)
    desired = int(rest.pop(0) if rest and rest[0].isdigit() else os.environ.get("CLIENT_DESIRED_PAR") or 4)
    requests = {}  # those that have no result yet
    for number in range(1, options.jobs + 1):
        job, file = uuid4(), {"Name": "input.txt", "CacheId": None, "Content": base64.b64encode(f"job {number}\n".encode()).decode()}
        requests[job] = {"JobId": str(job), "ClientId": options.client, "ExecName": rest[0] if rest else "calcA",
                         "Args": rest[1:] if rest else ["input.txt"], "Files": [file]}
    told = {"ClientId": options.client, "DesiredParallelism": desired} | ({"Features": FEATURES} if options.features else {})
    ended, good = asyncio.get_running_loop().create_future(), True

    def begin(peer):  # jobs that were submitted before are not queued again: they have the same ids
        for job, request in requests.items():
            peer.send(SUBMIT_JOB, msg=job, subject="job.submit." + request["ExecName"], payload=dump(request))

    def take(peer, frame):
        nonlocal good
        if frame.type == RESULT and "resultack" in peer.features:
            peer.send(RESULT_ACK, payload=frame.msg.bytes_le)
        if frame.type not in (RESULT, ERROR) or requests.pop(frame.corr, None) is None:
            return  # the first result of a job counts
        told = json.loads(frame.payload)
        good = good and told.get("Status") == "OK"
        print(frame.corr, *describe(told), flush=True)
        if not requests and not ended.done():
            ended.set_result(None)

    connected = asyncio.create_task(keep_connected(
        options, lambda: dict(type=HELLO_CLIENT, subject=options.client, payload=dump(told)), begin, take))
    await asyncio.wait((connected, ended), return_when=asyncio.FIRST_COMPLETED)
    if connected.done():
        connected.result()  # raises what has ended it
    connected.cancel()
    await asyncio.wait((connected,))
    return good


def describe(told):
    """What is printed of a result, or of an Error."""
    yield told.get("Status") or told["Code"]
    if told.get("Stdout") or told.get("Message"):
        yield repr(told.get("Stdout") or told["Message"])
    if told.get("OutputArchive"):
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(told["OutputArchive"]))) as archive:
            yield from (f"{name}={archive.read(name).decode(errors='replace')!r}" for name in archive.namelist())


def main():
    parser = argparse.ArgumentParser(description="A small leader, worker and client of the grid.")
    roles = parser.add_subparsers(dest="role", required=True)
    leader, worker, client = (roles.add_parser(role) for role in ("leader", "worker", "client"))
    for role in leader, worker, client:
        role.add_argument("--features", action="store_true", help="list extensions of the original protocol: " + ", ".join(FEATURES))
        if role is not leader:
            role.add_argument("host")
        role.add_argument("port", type=int)
    worker.add_argument("pattern", nargs="?", default="job.assign.*")
    worker.add_argument("--exe-dir", default="/opt/grid/exe", help="where the programs are, as EXEC.exe")
    worker.add_argument("--jobs-dir", default="/tmp/jobs", help="where each job has a directory while it runs")
    client.add_argument("--jobs", type=int, default=3, help="how many jobs to submit, all alike but for input.txt")
    client.add_argument("client", metavar="clientid")
    client.add_argument("rest", nargs=argparse.REMAINDER, metavar="[DESIRED] [EXEC [ARGUMENT ...]]")
    options = parser.parse_args()
    try:
        good = asyncio.run({"leader": lead, "worker": work, "client": submit}[options.role](options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
    return 0 if good is not False else 1


if __name__ == "__main__":
    sys.exit(main())
