"""submit, with a relay that gives prepared answers."""

import http.server
import json
import socket
import struct
import threading

from tests.rig import TOKEN, Rig


class TestSubmit(Rig):
    def relay(self, *answers):
        """Start what gives these answers to requests, one after the other, and keeps the requests in self.requests."""
        script, self.requests = iter(answers), []

        class Relay(http.server.BaseHTTPRequestHandler):
            def do_POST(relay):
                length = int(relay.headers.get("Content-Length", 0))
                self.requests.append((relay.command, relay.path, relay.headers, relay.rfile.read(length)))
                status, headers, content = next(script)
                if not status:  # the connection breaks without a word
                    relay.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    relay.connection.close()
                    return
                relay.send_response(status)
                for name, value in headers.items():
                    relay.send_header(name, value)
                relay.end_headers()
                relay.wfile.write(b"" if content is None else json.dumps(content).encode())

            do_GET = do_POST

            def log_message(*_):
                pass

        relay = http.server.HTTPServer(("127.0.0.1", 0), Relay)
        thread = threading.Thread(target=relay.serve_forever, args=[0.01])
        thread.start()
        self.addCleanup(relay.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(relay.shutdown)
        return "http://{}:{}".format(*relay.server_address)

    def task(self, status, progress, artifacts=(), error=None):
        return {"task_id": "task_1", "status": status, "progress": progress, "artifacts": artifacts, "error": error}

    def submit(self, url, *more):
        return self.orchestrator("submit", "--relay", url, "--token-file", "relay.token", "--kind", "motion", *more)

    def test_a_task_is_created_once_and_waited_for(self):
        created = {"task_id": "task_1", "status": "queued", "created_at": "2026-11-26T09:00:00Z"}
        url = self.relay(
            (503, {"Retry-After": "0"}, {"error": {"code": "UNAVAILABLE"}}),
            (429, {"Retry-After": "0"}, {"error": {"code": "QUEUE_FULL"}}),
            (202, {}, created),
            (200, {"ETag": '"1"'}, self.task("running", 0.25)),
            (304, {"ETag": '"1"'}, None),
            (200, {"ETag": '"2"'}, self.task("succeeded", 1, [{"name": "a.mp4", "size_bytes": 7}])),
        )
        end = self.submit(
            url, "--prompt", "a bow", "--job-id", "job_1", "--option", "fps=12", "--option", "style=slow",
            "--asset", "file:///srv/a.png", "--callback", "http://127.0.0.1:9000/api/relay/events", "--wait",
        )  # fmt: skip
        self.assertEqual((end.returncode, end.stdout), (0, f"task_1\n{url}/v1/tasks/task_1/artifacts/a.mp4 7 bytes\n"))
        creations, polls = self.requests[:3], self.requests[3:]
        self.assertEqual([r[:2] for r in creations], [("POST", "/v1/tasks")] * 3)
        self.assertEqual(len({(h["Idempotency-Key"], body) for _, _, h, body in creations}), 1)
        want = {"job_id": "job_1", "kind": "motion", "input": {"prompt": "a bow", "assets": ["file:///srv/a.png"]}}
        want |= {"options": {"fps": 12, "style": "slow"}, "callback_url": "http://127.0.0.1:9000/api/relay/events"}
        self.assertEqual(json.loads(creations[2][3]), want)
        self.assertEqual([r[:2] for r in polls], [("GET", "/v1/tasks/task_1")] * 3)
        self.assertEqual([r[2]["If-None-Match"] for r in polls], [None, '"1"', '"1"'])
        self.assertEqual([r[2]["Prefer"] for r in polls], [None, "wait=30", "wait=30"])
        self.assertEqual({h["X-Relay-Token"] for _, _, h, _ in self.requests}, {TOKEN})

    def test_a_broken_connection_is_tried_again(self):
        created = (202, {}, {"task_id": "task_1", "status": "queued"})
        url = self.relay((None, {}, None), (202, {"Content-Length": "99"}, {}), created)
        end = self.submit(url)
        self.assertEqual((end.returncode, end.stdout), (0, "task_1\n"))
        self.assertEqual(len({h["Idempotency-Key"] for _, _, h, _ in self.requests}), 1)
        self.assertEqual(len(self.requests), 3)

    def test_a_task_that_fails_ends_with_1(self):
        error = {"code": "EXEC_FAILED", "message": "exit 3"}
        created = {"task_id": "task_1", "status": "queued"}
        url = self.relay((202, {}, created), (200, {"ETag": "1"}, self.task("failed", 0, error=error)))
        end = self.submit(url, "--wait")
        self.assertEqual(end.returncode, 1)
        self.assertIn("EXEC_FAILED", end.stderr)

    def test_a_refusal_ends_with_1_at_once(self):
        end = self.submit(self.relay((400, {}, {"error": {"code": "INVALID_ARGUMENT", "details": {"field": "kind"}}})))
        self.assertEqual(end.returncode, 1)
        self.assertIn("INVALID_ARGUMENT", end.stderr)
        self.assertNotIn("Traceback", end.stderr)
        self.assertEqual(len(self.requests), 1)
