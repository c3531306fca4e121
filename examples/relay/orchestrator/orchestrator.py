#!/usr/bin/env python3
"""A small orchestrator for a relay, written from relay/SPEC.md: it creates tasks and takes what they have made.

  orchestrator.py serve --token-file relay.token --callback-secret-file callback.secret
  orchestrator.py submit --token-file relay.token --kind motion --prompt "a deep bow" --option fps=12 --wait

serve stores uploads as DIR/JOB_ID/TASK_ID/NAME, and prints each event that comes to /api/relay/events. Events must be
signed with the secret (whsec_ and base64), or without a secret have the token. With --presign s3 it also gives URLs of
an S3 bucket to a relay that asks for them; files become JOB_ID/TASK_ID/NAME there. Set S3_ENDPOINT, S3_BUCKET,
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if not us-east-1, AWS_REGION. A server has DIR for itself, and speaks no
TLS. A token file has one or several tokens; submit sends the first.
"""

import argparse
import base64
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import s3
import server


def call(url, token, content=None, **headers):
    """Return the JSON and the ETag that the relay answers, the JSON None after 304. While it is too busy or cannot
    be reached, the call is made again; anything else ends the program."""
    headers |= {"X-Relay-Token": token, "Content-Type": "application/json"}
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    body = None if content is None else json.dumps(content).encode()
    for attempt in range(12):
        pause = min(0.1 * 2**attempt, 30)  # seconds, unless the relay says how many
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
                return json.load(answer), answer.headers["ETag"]
        except urllib.error.HTTPError as e:
            if e.code == 304:
                return None, e.headers["ETag"]
            why = f"{e.code}: {e.read(4096).decode(errors='replace')}"
            if e.code not in (429, 503, 507):
                sys.exit(f"the relay refuses with {why}")
            asked = e.headers.get("Retry-After", "")
            pause = int(asked) if asked.isdecimal() else pause
        except (OSError, http.client.HTTPException) as e:
            why = e
        print(f"the relay cannot do it now, again in {pause} s: {why}", file=sys.stderr)
        time.sleep(pause)
    sys.exit("the relay could not do it for too long")


def option(text):
    """Read NAME=VALUE, where VALUE is JSON, or else is text as it is."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def submit(options):
    wanted = {"job_id": options.job_id or f"job_{uuid.uuid4().hex}", "kind": options.kind}
    wanted["input"] = {"assets": options.asset} | ({"prompt": options.prompt} if options.prompt else {})
    wanted["options"] = dict(options.option)
    if options.callback:
        wanted["callback_url"] = options.callback
    tasks = options.relay.rstrip("/") + "/v1/tasks"
    task, _ = call(tasks, options.tokens[0], wanted, Idempotency_Key=uuid.uuid4().hex)
    url = f"{tasks}/{task['task_id']}"
    print(task["task_id"], flush=True)
    etag = None
    while options.wait and task["status"] not in ("succeeded", "failed", "canceled"):
        wait = {"Prefer": "wait=30", "If_None_Match": etag} if etag else {}  # first the task as it is, then changes
        now, etag = call(url, options.tokens[0], **wait)
        if now:
            task = now
            print(task["status"], task["progress"], file=sys.stderr)
    for a in task.get("artifacts", []):
        print(f"{url}/artifacts/{a['name']}", a["size_bytes"], "bytes")
    if task["status"] in ("failed", "canceled"):
        sys.exit(f"{task['status']}: {json.dumps(task['error'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="serve|submit")
    a = commands.add_parser("serve")
    a.set_defaults(run=server.serve, key=None)
    a.add_argument("--addr", default="127.0.0.1:9000")
    a.add_argument("--callback-secret-file", type=Path)
    a.add_argument("--dir", type=Path, default="received")
    a.add_argument("--presign", choices=["s3"])
    b = commands.add_parser("submit")
    b.set_defaults(run=submit, presign=None, callback_secret_file=None)
    b.add_argument("--relay", default="http://127.0.0.1:8090")
    b.add_argument("--kind", required=True)
    b.add_argument("--prompt")
    b.add_argument("--option", action="append", type=option, default=[], metavar="NAME=VALUE")
    b.add_argument("--asset", action="append", default=[], metavar="file://…")
    b.add_argument("--job-id")
    b.add_argument("--callback", metavar="URL")
    b.add_argument("--wait", action="store_true", help="until the task has ended; exit with 1 if it did not succeed")
    for each in a, b:
        each.add_argument("--token-file", type=Path, required=True)
    options = parser.parse_args()
    options.tokens = options.token_file.read_text().split() or parser.error("the token file is empty")
    if options.callback_secret_file:
        secret = options.callback_secret_file.read_text().strip()
        options.key = secret.startswith("whsec_") and base64.b64decode(secret[6:])
        if not options.key:
            parser.error("the secret of callbacks must be whsec_ and base64")
    missing = [name for name in s3.VARIABLES if options.presign and name not in os.environ]
    if missing:
        parser.error(f"--presign s3 needs {', '.join(missing)} in the environment")
    options.run(options)


if __name__ == "__main__":
    main()
