"""The frames of the grid's wire and one connection. The standard library is enough."""

import asyncio
import json
import random
import re
import socket
import struct
import sys
import time
from dataclasses import dataclass
from uuid import UUID, uuid4

MAX_FRAME = 4 * 1024 * 1024
MAX_WAITING = 16 * 1024 * 1024  # bytes that wait to be written to a peer
ZERO = UUID(int=0)

SUBMIT_JOB, ASSIGN_JOB, ACK_JOB, CREDIT, RESULT, HELLO_CLIENT, HELLO_WORKER = 1, 2, 3, 4, 5, 9, 10  # the original protocol
WELCOME, ERROR, PING, PONG, ACCEPT, RENEW, CANCEL, SUBMIT_ACK, RESULT_ACK = 32, 33, 34, 35, 36, 37, 38, 39, 40
FEATURES = ["accept", "cancel", "error", "ping", "resultack", "submitack"]  # the extensions that are spoken here

HEADER = struct.Struct("<IB16s16sH")  # len, type, msgId, corrId, subjectLen
CLIENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
EXEC = re.compile(rf"(?=.{{1,200}}\Z){CLIENT.pattern}(\.{CLIENT.pattern})*")
TOKEN = re.compile(r"[^. \t\r\n\f\0*>]+")


class ProtocolError(Exception):
    """The other end has sent what makes no sense. The connection is of no use any more."""


@dataclass
class Frame:
    type: int
    msg: UUID = ZERO
    corr: UUID = ZERO
    subject: str = ""
    payload: bytes = b""

    def encode(self) -> bytes:
        subject = self.subject.encode()
        length = 39 + len(subject) + len(self.payload)
        if length > MAX_FRAME:
            raise ValueError(f"a frame of {length} bytes: at most {MAX_FRAME} are allowed")
        head = HEADER.pack(length, self.type, self.msg.bytes_le, self.corr.bytes_le, len(subject))
        return head + subject + struct.pack("<I", len(self.payload)) + self.payload


async def read(reader: asyncio.StreamReader) -> Frame | None:
    """The next frame, or None when the connection has ended between two frames."""
    try:
        head = await reader.readexactly(4)
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise ProtocolError("the connection has ended within a frame") from None
        return None
    (length,) = struct.unpack("<I", head)
    if not 39 <= length <= MAX_FRAME:
        raise ProtocolError(f"a frame of {length} bytes: 39 to {MAX_FRAME} are allowed")
    try:
        body = head + await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise ProtocolError("the connection has ended within a frame") from None
    _, kind, msg, corr, size = HEADER.unpack_from(body)
    if size > length - 39 or struct.unpack_from("<I", body, 39 + size)[0] != length - 39 - size:
        raise ProtocolError("the sizes of a frame contradict each other")
    try:
        subject = body[39 : 39 + size].decode()
    except UnicodeDecodeError:
        raise ProtocolError("the subject of a frame is not UTF-8") from None
    if "\0" in subject:
        raise ProtocolError("the subject of a frame has a NUL")
    return Frame(kind, UUID(bytes_le=msg), UUID(bytes_le=corr), subject, body[43 + size :])


class Peer:
    """One connection. Its features are empty until Welcome has told them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer, self.features = reader, writer, set()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in ("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30000):
            if hasattr(socket, name):  # they are not the same on every system
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def send(self, type: int, **fields) -> None:
        """Writes a frame whole, after those before it. An end of the connection is seen by frames()."""
        self.writer.write(Frame(type, **fields).encode())
        if self.writer.transport.get_write_buffer_size() > MAX_WAITING:
            self.writer.transport.abort()

    async def frames(self):
        """Yields the frames that come, without pings, until the connection ends."""
        pinging = asyncio.create_task(self._ping())
        try:
            while True:
                async with asyncio.timeout(30 if "ping" in self.features else None):
                    frame = await read(self.reader)
                if frame is None:
                    return
                if frame.type == PING:
                    self.send(PONG, msg=uuid4(), corr=frame.msg)
                elif frame.type != PONG:
                    yield frame
        except TimeoutError:
            raise ProtocolError("nothing has come for 30 s") from None
        finally:
            pinging.cancel()
            self.writer.close()

    async def _ping(self):
        while True:
            await asyncio.sleep(10)
            if "ping" in self.features:
                self.send(PING, msg=uuid4())


async def keep_connected(options, hello, begin, take):
    """Keeps a connection to the leader, and never returns: hello gives its first frame, begin is called after it, and take with each frame."""
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


def members(payload: bytes) -> dict:
    """The members of a JSON object that must be clear to all: by lower-case names, none of them twice."""

    def once(pairs):
        found = {name.lower(): value for name, value in pairs if value is not None}
        if len({name.lower() for name, _ in pairs}) < len(pairs):
            raise ValueError("a member is there twice")
        return found

    value = json.loads(payload.decode(), object_pairs_hook=once)
    if not isinstance(value, dict):
        raise ValueError("the payload is no JSON object")
    return value


def dump(value) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def is_pattern(pattern: str) -> bool:
    *front, last = pattern.split(".")
    good = all(token == "*" or TOKEN.fullmatch(token) for token in front) and (last in ("*", ">") or TOKEN.fullmatch(last))
    return bool(good) and len(pattern.encode()) <= 512


def matches(pattern: str, subject: str) -> bool:
    want, have = pattern.split("."), subject.split(".")
    if want[-1] == ">" and len(have) >= len(want):
        want, have = want[:-1], have[: len(want) - 1]
    return len(want) == len(have) and all(w in ("*", h) for w, h in zip(want, have))


def log(*words):
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def result(request: dict, status: str, **more) -> bytes:
    """A JobResult. Its first members are those of the original protocol."""
    first = {name: request.get(name, "") for name in ("JobId", "ClientId", "ExecName")}
    return dump(first | {"Status": status, "Stdout": "", "Stderr": "", "OutputArchive": None} | more)
