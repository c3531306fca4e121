"""Uploads to S3, here Versity's gateway as in the tests in Go: see storage/s3/s3test."""

import os
import socket
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from unittest import mock

import s3
from tests.rig import TOKEN, Rig, eventually

S3 = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret-of-tests", "AWS_REGION": "eu-central-1"}


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def versitygw():
    """Return the S3 server of the tests, which storage/s3/s3test/setup.sh installs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batchfleet" / "s3test"
    program = Path(os.environ.get("VERSITYGW") or cache / "versitygw")
    if not program.exists():
        advice = "Versity's gateway is not installed: run storage/s3/s3test/setup.sh, or set VERSITYGW to the program"
        raise AssertionError(advice) if os.environ.get("CI") else unittest.SkipTest(advice)
    return program


class TestPresigned(Rig):
    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.dict(os.environ, S3))

    def bucket(self):
        """Start a server of S3 with a bucket, and return the environment that leads there."""
        program, objects, beside = versitygw(), self.dir / "objects", self.dir / "beside"
        objects.mkdir()
        beside.mkdir()
        env = {"ROOT_ACCESS_KEY": S3["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": S3["AWS_SECRET_ACCESS_KEY"]}
        for _ in range(5):  # the port was free a moment ago, and may no longer be
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            args = [program, "--port", f"127.0.0.1:{port}", "--region", S3["AWS_REGION"], "posix"]
            process = self.start([*args, "--sidecar", beside, objects], env, self.dir / "s3.log")
            eventually(lambda: process.poll() is not None or listens(port), "the server of S3 listens")  # noqa: B023
            if process.poll() is None:
                where = {"S3_ENDPOINT": f"http://127.0.0.1:{port}", "S3_BUCKET": "results"}
                self.enterContext(mock.patch.dict(os.environ, where))
                self.put(s3.presign("PUT", f"http://127.0.0.1:{port}/results"), b"")
                return S3 | where
        raise AssertionError((self.dir / "s3.log").read_text())

    def put(self, url, body, headers=None):
        request = urllib.request.Request(url, body, headers or {}, method="PUT")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return answer.status

    def send(self, phase, metadata):
        head = {"X_Relay_Token": TOKEN, "Idempotency_Key": "task_1", "Content_Type": "application/json"}
        return self.request("/api/jobs/job_1/relay-upload", metadata | {"phase": phase}, **head)

    def test_signature_is_that_of_the_example_of_aws(self):
        example = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_REGION": "us-east-1"}
        example["AWS_SECRET_ACCESS_KEY"] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
        with mock.patch.dict(os.environ, example):
            url = s3.presign("GET", "https://examplebucket.s3.amazonaws.com/test.txt", when="20130524T000000Z")
        self.assertTrue(url.endswith("=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"), url)

    def test_files_go_to_s3_and_are_there_when_the_task_is_taken(self):
        self.serve("--presign", "s3", env=self.bucket())
        content = os.urandom(100_000)
        metadata = self.metadata(self.artifact("a.bin", content), self.artifact("b.bin", b"b"))
        status, answer = self.send("begin", metadata)
        self.assertEqual((status, [u["name"] for u in answer["uploads"]]), (200, ["a.bin", "b.bin"]))
        first, second = answer["uploads"]
        # The server of S3 refuses another content, another header and another object.
        for url, body, headers in [
            (first["url"], b"another", first["headers"]),
            (first["url"], content, first["headers"] | {"Content-Type": "text/html"}),
            (first["url"].replace("a.bin", "c.bin"), content, first["headers"]),
        ]:
            with self.assertRaises(urllib.error.HTTPError):
                self.put(url, body, headers)
        self.assertEqual(self.put(first["url"], content, first["headers"]), 200)
        self.assertEqual(self.send("complete", metadata), (503, {"error": "S3 answers 404 when asked for b.bin"}))
        self.assertFalse((self.dir / "received/job_1").exists())
        self.assertEqual(self.put(second["url"], b"b", second["headers"]), 200)
        self.assertEqual(self.send("complete", metadata)[0], 200)
        self.assertEqual((self.dir / "objects/results/job_1/task_1/a.bin").read_bytes(), content)
        self.assertEqual(self.send("begin", metadata)[0], 409)
        self.assertEqual(self.send("complete", metadata)[0], 409)
        self.assertNotIn("X-Amz-Signature", self.log.read_text())

    def test_an_object_of_another_size_is_not_taken(self):
        self.serve("--presign", "s3", env=self.bucket())
        a = self.artifact("a.bin", b"1234")
        self.put(s3.presign("PUT", s3.address(self.metadata(a), a)), b"123")
        answer = self.send("complete", self.metadata(a))
        self.assertEqual(answer, (503, {"error": "S3 has another size of a.bin"}))

    def test_it_does_not_start_without_a_bucket(self):
        end = self.orchestrator("serve", "--token-file", "relay.token", "--presign", "s3")
        self.assertEqual(end.returncode, 2)
        self.assertIn("S3_ENDPOINT, S3_BUCKET", end.stderr)
