"""Uploads as multipart/form-data, sent by curl."""

import json
import os
import re
import socket
from pathlib import Path

import uploads
from tests.rig import TOKEN, Rig, eventually


class TestMultipart(Rig):
    def test_files_are_stored_once(self):
        self.serve()
        # Content that looks like the syntax around it.
        first = self.artifact("motion.mp4", os.urandom(300_000))
        second = self.artifact("notes.txt", b"--\r\n\r\n--x--\r\n")
        self.assertEqual(self.curl(self.metadata(first, second), "motion.mp4", "notes.txt"), 200)
        want = {f"job_1/task_1/{name}": (self.dir / name).read_bytes() for name in ("motion.mp4", "notes.txt")}
        self.assertEqual(self.received(), want)
        self.assertIn("task_1 motion received motion.mp4 notes.txt", self.log.read_text())
        # The same task once more, with something else, changes nothing.
        self.assertEqual(self.curl(self.metadata(self.artifact("motion.mp4", b"other")), "motion.mp4"), 409)
        self.assertEqual(self.received(), want)
        self.assertEqual(self.curl(self.metadata(second, task="task_2"), "notes.txt", task="task_2"), 200)
        self.assertEqual(len(self.received()), 3)

    def test_what_is_not_as_promised_is_refused_and_not_stored(self):
        self.serve()
        a, b, c = (self.artifact(f"{name}.bin", content) for name, content in [("a", b"a" * 9), ("b", b""), ("c", b"")])
        wrong = [
            (422, "another sha256", self.metadata(a | {"sha256": "0" * 64}), ["a.bin"]),
            (422, "too short", self.metadata(a | {"size_bytes": 10}), ["a.bin"]),
            (422, "too long", self.metadata(a | {"size_bytes": 8}), ["a.bin"]),
            (422, "a file too few", self.metadata(a, b), ["a.bin"]),
            (422, "a file too many", self.metadata(a), ["a.bin", "b.bin"]),
            (422, "another order", self.metadata(b, c), ["c.bin", "b.bin"]),
            (422, "twice the same name", self.metadata(a, a), ["a.bin", "a.bin"]),
            (422, "no artifact", self.metadata(), []),
            (422, "a path", self.metadata(a | {"name": "../a.bin"}), ["a.bin;filename=../a.bin"]),
            (422, "a hidden name", self.metadata(a | {"name": ".a"}), ["a.bin;filename=.a"]),
            (422, "another job", self.metadata(a, job="job_2"), ["a.bin"]),
            (422, "another task", self.metadata(a, task="task_2"), ["a.bin"]),
            (422, "metadata that is no object", [], ["a.bin"]),
            (422, "no kind", {k: v for k, v in self.metadata(a).items() if k != "kind"}, ["a.bin"]),
            (413, "much metadata", self.metadata(a, more="m" * (256 << 10)), ["a.bin"]),
        ]
        for status, what, metadata, files in wrong:
            with self.subTest(what):
                self.assertEqual(self.curl(metadata, *files), status)
                self.assertEqual(self.received(), {})
        for status, what, change in [
            (401, "a wrong token", {"token": "guess"}),
            (401, "no token", {"token": ""}),
            (400, "a task that is a path", {"task": "../x"}),
            (400, "no task", {"task": ""}),
            (400, "a job with two dots", {"job": "a..b"}),
        ]:
            with self.subTest(what):
                self.assertEqual(self.curl(self.metadata(a), "a.bin", **change), status)
                self.assertEqual(self.received(), {})
        self.assertEqual(self.curl(self.metadata(a, b), "a.bin", "b.bin", token="the-token-of-next-month"), 200)
        self.assertEqual(self.request("/elsewhere", b"", X_Relay_Token=TOKEN)[0], 404)
        path, head = "/api/jobs/j/relay-upload", {"X_Relay_Token": TOKEN, "Idempotency_Key": "t"}
        self.assertEqual(self.request(path, b"{}", **head)[0], 415)
        self.assertEqual(self.request(path, b"", **head, Content_Length="1000000000000")[0], 413)
        chunked = {"Content_Length": "5", "Transfer_Encoding": "chunked"}
        self.assertEqual(self.request(path, b"0\r\n\r\n", **head, **chunked)[0], 411)
        self.assertNotIn(TOKEN, self.log.read_text())

    def test_a_refusal_reaches_who_is_still_sending(self):
        self.serve()
        (self.dir / "large").write_bytes(bytes(20_000_000))
        for _ in range(5):
            self.assertEqual(self.curl(self.metadata(), "large", token="guess"), 401)

    def begin(self, metadata, first):
        """Send the beginning of an upload whose only file lacks what comes after first, and return the connection."""
        body = f'--x\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{json.dumps(metadata)}\r\n--x\r\n'
        body += f'Content-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n{first}'
        rest = metadata["artifacts"][0]["size_bytes"] - len(first) + len("\r\n--x--\r\n")
        head = "POST /api/jobs/job_1/relay-upload HTTP/1.0\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        head += f"X-Relay-Token: {TOKEN}\r\nIdempotency-Key: task_1\r\nContent-Length: {len(body) + rest}\r\n\r\n"
        s = self.enterContext(socket.create_connection(self.addr.split(":")))
        s.sendall((head + body).encode())
        eventually(lambda: list((self.dir / "received/.part").glob("*/*/a.bin")), "the file has begun")
        return s

    def test_an_upload_that_breaks_off_leaves_nothing(self):
        self.serve()
        metadata = self.metadata(self.artifact("a.bin", b"a" * 1000))
        self.begin(metadata, "aaaa").close()
        self.assertEqual(self.received(), {})
        self.assertEqual(self.curl(metadata, "a.bin"), 200)

    def test_of_two_uploads_at_once_one_is_stored(self):
        self.serve()
        metadata = self.metadata(self.artifact("a.bin", b"a" * 1000))
        late = self.begin(metadata, "aaaa")
        self.assertEqual(self.curl(metadata, "a.bin"), 200)
        late.sendall(b"a" * 996 + b"\r\n--x--\r\n")
        self.assertIn(b" 409 ", late.makefile("rb").readline())
        self.assertEqual(self.received(), {"job_1/task_1/a.bin": b"a" * 1000})

    def test_a_large_file_is_not_held_in_memory(self):
        self.serve()
        self.assertEqual(self.curl(self.metadata(self.artifact("large", bytes(50_000_000))), "large"), 200)
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())[1]) << 10
        self.assertLess(peak, 64_000_000)

    def test_parts_are_the_same_wherever_reads_end(self):
        want = [(b"1", b"\r\n-\r\n--boundar"), (b"2", b""), (b"3", b"\r\n\r\n--boun\r")]
        body = b"preamble\r\n"
        for name, content in want:
            body += b"--boundary\r\nName: " + name + b"\r\n\r\n" + content + b"\r\n"
        body += b"--boundary--"
        for size in range(1, len(body) + 1):
            chunks = iter([body[at : at + size] for at in range(0, len(body), size)])
            form = uploads.parts(lambda n, chunks=chunks: next(chunks, b""), "boundary")
            self.assertEqual([(head["Name"].encode(), b"".join(content)) for head, content in form], want)
        for end in range(len(body)):
            chunks = iter([body[:end]])
            with self.assertRaisesRegex(ValueError, "ends within a part"):
                for _ in uploads.parts(lambda n, chunks=chunks: next(chunks, b""), "boundary"):
                    pass
