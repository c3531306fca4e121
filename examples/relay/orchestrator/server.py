"""The two addresses of an orchestrator that a relay calls."""

import base64
import contextlib
import hmac
import http.server
import json
import re
import shutil
import tempfile
import time
from pathlib import Path

import s3
from uploads import CHUNK, MAX_JSON, NAME, check, join, manifest, parts, save

MAX_EVENT, MAX_UPLOAD = 20 << 10, 64 << 30  # bytes
KEPT = 10_000  # how many tasks' last events are remembered


def genuine(key, headers, body, now):
    """Whether a callback was signed with the key (Standard Webhooks) less than five minutes from now."""
    event, when, given = (headers.get("webhook-" + name, "") for name in ("id", "timestamp", "signature"))
    want = b"v1," + base64.b64encode(hmac.digest(key, f"{event}.{when}.".encode() + body, "sha256"))
    fresh = when.isdecimal() and abs(now - int(when)) <= 300
    return fresh and any(hmac.compare_digest(want, one.encode()) for one in given.split())


def tell(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def serve(options):
    shutil.rmtree(options.dir / ".part", ignore_errors=True)  # what a server that was killed has left
    (options.dir / ".part").mkdir(parents=True)
    Handler.options, Handler.last = options, {}
    host, _, port = options.addr.rpartition(":")
    with http.server.ThreadingHTTPServer((host, int(port)), Handler) as server:
        tell("orchestrator listens on", "{}:{}".format(*server.server_address))
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, timeout = "HTTP/1.1", 60  # seconds without a byte
    options = None  # those of the command
    last = None  # task_id: (sequence, event_id) of its last event, the oldest task first

    def do_POST(self):
        self.left = 0
        try:
            status, content = self.route()
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            return
        except OSError as e:  # no room on disk, or S3 does not answer: the relay is to try again
            status, content = 503, str(e)
        except (ValueError, LookupError, TypeError, AttributeError) as e:
            status, content = e.args if len(e.args) == 2 else (400, repr(e))
        if status >= 400:
            self.log_error("%s", f"refused {self.path} with {status}: {content}")
            content = {"error": content}
        with contextlib.suppress(OSError):
            self.answer(status, content)

    def route(self):
        """Do what is asked for, and return a status with what to say as JSON. A ValueError(status, why) refuses it."""
        upload = re.fullmatch("/api/jobs/([^/]+)/relay-upload", self.path)
        length = self.headers.get("Content-Length", "")
        check("Transfer-Encoding" not in self.headers and length.isdecimal(), 411, "Content-Length is needed")
        self.left = int(length)
        check(upload or self.path == "/api/relay/events", 404, "there is nothing here")
        check(self.left <= MAX_UPLOAD, 413, "the body is too long")
        return self.upload(upload[1]) if upload else self.event()

    def upload(self, job_id):
        self.check_token()
        task_id = self.headers.get("Idempotency-Key", "")
        check(NAME.fullmatch(job_id) and NAME.fullmatch(task_id), 400, "the id of the job or the task is wrong")
        final = self.options.dir / job_id / task_id
        check(not final.exists(), 409, "the artifacts of this task are here already")
        with tempfile.TemporaryDirectory(dir=self.options.dir / ".part") as temporary:
            work = Path(temporary) / task_id
            work.mkdir()
            if self.headers.get_content_type() == "multipart/form-data":
                m = save(parts(self.read, self.headers.get_boundary("")), job_id, task_id, work)
            else:
                check(self.options.presign, 415, "only multipart/form-data is taken here")
                m = manifest(self.body(MAX_JSON), job_id, task_id)
                if m.get("phase") == "begin":
                    return 200, {"uploads": [s3.offer(m, a) for a in m["artifacts"]]}
                check(m.get("phase") == "complete", 422, "phase must be begin or complete")
                for a in m["artifacts"]:
                    check(s3.size(m, a) == a["size_bytes"], 503, f"S3 has another size of {a['name']}")
            (work / ".metadata.json").write_text(json.dumps(m))  # no artifact's name begins with a dot
            final.parent.mkdir(exist_ok=True)
            try:
                work.rename(final)  # all files at once, and never over those of another request
            except OSError:
                check(not final.exists(), 409, "the artifacts of this task are here since a moment ago")
                raise
        tell(task_id, m["kind"], "received", *(a["name"] for a in m["artifacts"]))
        return 200, {}

    def event(self):
        body = self.body(MAX_EVENT)
        if self.options.key:
            check(genuine(self.options.key, self.headers, body, time.time()), 401, "the signature is wrong or old")
        else:
            self.check_token()
        e = json.loads(body)
        sequence, event_id = self.last.pop(e["task_id"], (0, ""))
        missed = e["sequence"] - sequence - 1
        words = [e["task_id"], e["kind"], e["status"], e["progress"]]
        if e["error"]:
            words.append(json.dumps(e["error"], ensure_ascii=False))
        if event_id == e["event_id"]:
            words.append("(again)")
        elif missed > 0:
            words.append(f"({missed} before it not seen)")
        tell(*words)
        self.last[e["task_id"]] = max((sequence, event_id), (e["sequence"], e["event_id"]))
        if len(self.last) > KEPT:
            del self.last[next(iter(self.last))]
        return 204, None

    def check_token(self):
        given = "\n".join(self.headers.get_all("X-Relay-Token", [])).encode()  # none or two are no token
        right = [token for token in self.options.tokens if hmac.compare_digest(token.encode(), given)]
        check(right, 401, "X-Relay-Token is not the token")

    def read(self, n):
        data = self.rfile.read1(min(n, self.left))
        self.left -= len(data)
        return data

    def body(self, limit):
        return join(iter(lambda: self.read(CHUNK), b""), limit, "the body")

    def answer(self, status, content):
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        if status >= 400:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        patience = time.monotonic() + 60
        while time.monotonic() < patience and self.read(CHUNK):
            pass  # who still sends would not see the answer if the connection broke now

    def log_request(self, *_):
        pass
