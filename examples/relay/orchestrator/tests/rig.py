"""What the tests share: an orchestrator in a directory of its own, and what a relay sends it."""

import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "orchestrator.py"
TOKEN = "a-token-of-tests-with-32-characters"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NO_PROXY = {k: v for k, v in os.environ.items() if k.lower() not in ("http_proxy", "https_proxy", "all_proxy")}


def eventually(holds, what):
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until, f"after 30 s still not: {what}"
        time.sleep(0.02)


class Rig(unittest.TestCase):
    def setUp(self):
        self.dir = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.dir / "relay.token").write_text(f"{TOKEN}\nthe-token-of-next-month\n")
        (self.dir / "callback.secret").write_text(SECRET + "\n")

    def start(self, args, env, log):
        """Start a program that ends with the test."""
        with log.open("wb") as out:
            process = subprocess.Popen(args, env={**NO_PROXY, **env}, stdout=out, stderr=out, cwd=self.dir)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def serve(self, *more, env=None):
        self.log = self.dir / "serve.log"
        args = [sys.executable, PROGRAM, "serve", "--addr", "127.0.0.1:0", "--token-file", "relay.token", *more]
        self.process = self.start(args, env or {}, self.log)
        eventually(lambda: "\n" in self.log.read_text(), "the orchestrator listens")
        self.addr = re.search("listens on (.*)", self.log.read_text())[1]

    def orchestrator(self, *args):
        args = [sys.executable, PROGRAM, *args]
        return subprocess.run(args, env=NO_PROXY, cwd=self.dir, capture_output=True, text=True, timeout=60)

    def artifact(self, name, content, **changes):
        """Write a file, and return what metadata says of it."""
        (self.dir / name).write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        return {"name": name, "content_type": "video/mp4", "size_bytes": len(content), "sha256": sha256} | changes

    def metadata(self, *artifacts, task="task_1", job="job_1", **more):
        return {"task_id": task, "job_id": job, "kind": "motion", "artifacts": list(artifacts)} | more

    def request(self, path, body, **headers):
        """Return the status and the JSON of the answer to a POST."""
        connection = http.client.HTTPConnection(self.addr, timeout=30)
        self.addCleanup(connection.close)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def curl(self, metadata, *files, token=TOKEN, task="task_1", job="job_1"):
        """Upload as a relay does, and return the status."""
        with tempfile.NamedTemporaryFile("w", dir=self.dir, prefix="metadata", delete=False) as file:
            json.dump(metadata, file)
        form = [f"metadata=<{file.name};type=application/json", *(f"file=@{f};type=video/mp4" for f in files)]
        args = ["curl", "-sS", "--noproxy", "*", "-m", "60", "-o", "/dev/null", "-w", "%{http_code}"]
        for header in f"X-Relay-Token: {token}", f"Idempotency-Key: {task}", "Expect:":  # send all at once
            args += ["-H", header]
        for part in form:
            args += ["-F", part]
        args.append(f"http://{self.addr}/api/jobs/{job}/relay-upload")
        return int(subprocess.run(args, cwd=self.dir, check=True, capture_output=True, text=True).stdout)

    def received(self):
        """Return what the server has stored, by path, and check that no temporary file is left."""
        received = self.dir / "received"
        eventually(lambda: not list((received / ".part").iterdir()), "no temporary file is left")
        files = [f for f in received.rglob("*") if f.is_file() and f.name != ".metadata.json"]
        return {str(f.relative_to(received)): f.read_bytes() for f in files}
