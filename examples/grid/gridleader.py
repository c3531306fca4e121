"""The leader of grid.py. It gives out jobs in the order in which they came, and keeps nothing on disk."""

import asyncio
import struct
from collections import Counter
from dataclasses import dataclass
from uuid import UUID, uuid4

from gridwire import (
    ACCEPT, ACK_JOB, ASSIGN_JOB, CANCEL, CLIENT, CREDIT, ERROR, EXEC, FEATURES, HELLO_CLIENT, HELLO_WORKER,
    MAX_FRAME, RENEW, RESULT, RESULT_ACK, SUBMIT_ACK, SUBMIT_JOB, WELCOME, ZERO, Peer, ProtocolError, dump,
    is_pattern, log, matches, members, read, result,
)

LEASE, MAX_ATTEMPTS = 30, 6


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
        elif frame.type == CANCEL and "cancel" in peer.features and frame.corr in peer.jobs:
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
