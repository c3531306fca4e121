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
import json
import os
import sys
import zipfile
from uuid import uuid4

from gridleader import lead
from gridwire import ERROR, FEATURES, HELLO_CLIENT, RESULT, RESULT_ACK, SUBMIT_JOB, dump, keep_connected
from gridworker import work


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
