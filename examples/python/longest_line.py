#!/usr/bin/env python3
"""A kind in Python: finds the longest line of a text.

It uses nothing but its environment: where the input is, where outputs go, and
the parameters, which are also on stdin. What it prints is the job's log.
"""
import json
import os
import sys

params = json.load(sys.stdin)
path = os.environ["BATCHFLEET_INPUT"]
if not path:
    print("this kind needs an input: submit it with a file", file=sys.stderr)
    sys.exit(65)  # EX_DATAERR: no other attempt would end better

size = os.path.getsize(path)
longest, number, seen = "", 0, 0
with open(path, "rb") as text:
    for n, raw in enumerate(text, 1):
        seen += len(raw)
        line = raw.decode("utf-8", "replace").rstrip("\n")
        if len(line) > len(longest) and not (params.get("ignore") and line.startswith(params["ignore"])):
            longest, number = line, n
        if n % 1000 == 0:
            print(f"::progress {seen}/{size} line {n}", flush=True)

print(f"line {number} has {len(longest)} characters")
with open(os.path.join(os.environ["BATCHFLEET_OUTPUT"], "longest.json"), "w") as out:
    json.dump({"line": number, "characters": len(longest), "text": longest}, out)
