"""Callbacks."""

import base64
import hmac
import json
import re
import time
from email.message import Message

import server
from tests.rig import SECRET, TOKEN, Rig


class TestEvents(Rig):
    def event(self, sequence, now=None, key=SECRET, **more):
        e = {"event": "running", "event_id": f"task_1.{sequence}", "sequence": sequence, "task_id": "task_1"}
        e |= {"job_id": "job_1", "kind": "motion", "status": "running", "progress": 0.55, "artifacts": []}
        e |= {"error": None, "timestamp": "2026-11-26T09:00:00Z"}
        body = json.dumps(e | more)
        when = str(int(time.time() if now is None else now))
        content = f"{e['event_id']}.{when}.{body}".encode()
        signature = base64.b64encode(hmac.digest(base64.b64decode(key[6:]), content, "sha256")).decode()
        headers = {"webhook_id": e["event_id"], "webhook_timestamp": when, "webhook_signature": f"v1,{signature}"}
        return self.request("/api/relay/events", body.encode(), **headers)[0]

    def test_signature_is_that_of_the_example_of_standard_webhooks(self):
        headers = Message()
        headers["webhook-id"], headers["webhook-timestamp"] = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"
        headers["webhook-signature"] = "v1,bm9uZQ== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        body, key = b'{"test": 2432232314}', base64.b64decode(SECRET.removeprefix("whsec_"))
        self.assertTrue(server.genuine(key, headers, body, 1614265330 + 300))
        self.assertFalse(server.genuine(key, headers, body, 1614265330 + 301))
        self.assertFalse(server.genuine(key, headers, body, 1614265330 - 301))
        self.assertFalse(server.genuine(key, headers, body + b" ", 1614265330))
        self.assertFalse(server.genuine(key, Message(), body, 1614265330))

    def test_each_event_is_a_line(self):
        self.serve("--callback-secret-file", "callback.secret")
        self.assertEqual([self.event(n) for n in (1, 2, 2, 5)], [204, 204, 204, 204])
        error = {"code": "EXEC_FAILED", "message": "exit 3: \x1b[2J"}
        self.assertEqual(self.event(6, status="failed", error=error), 204)
        lines = self.log.read_text().splitlines()[1:]
        self.assertEqual(len(lines), 5)
        for line, want in zip(lines, ["", "", " (again)", " (2 before it not seen)"], strict=False):
            self.assertRegex(line, r"^\d\d:\d\d:\d\d " + re.escape(f"task_1 motion running 0.55{want}") + "$")
        self.assertIn(r'failed 0.55 {"code": "EXEC_FAILED", "message": "exit 3: \u001b[2J"}', lines[4])

    def test_events_of_others_are_refused(self):
        self.serve("--callback-secret-file", "callback.secret")
        self.assertEqual(self.event(1, key="whsec_" + base64.b64encode(b"guess").decode()), 401)
        self.assertEqual(self.event(1, now=time.time() - 600), 401)
        self.assertEqual(self.request("/api/relay/events", {}, X_Relay_Token=TOKEN)[0], 401)
        self.assertEqual(self.event(1, artifacts=["x" * (20 << 10)]), 413)
        self.assertNotIn("running", self.log.read_text())

    def test_without_a_secret_events_need_the_token(self):
        self.serve()
        event = {"event_id": "t.1", "sequence": 1, "task_id": "t", "kind": "k", "status": "queued"}
        event |= {"progress": 0, "error": None}
        self.assertEqual(self.request("/api/relay/events", event)[0], 401)
        self.assertEqual(self.request("/api/relay/events", event, X_Relay_Token=TOKEN)[0], 204)
        self.assertEqual(self.request("/api/relay/events", {}, X_Relay_Token=TOKEN)[0], 400)
