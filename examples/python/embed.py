#!/usr/bin/env python3
"""A kind that uses GPU slots: vectors of lines of text.

A worker gives each job GPUs of its own and names them in CUDA_VISIBLE_DEVICES,
as CUDA, PyTorch and JAX read it. This program needs no package: its vectors are
hashes of words. Where it says "model", load yours.
"""
import hashlib
import json
import math
import os
import sys

params = json.load(sys.stdin)
dimensions = params["dimensions"]
print("GPU", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)


def model(text):
    vector = [0.0] * dimensions
    for word in text.lower().split():
        digest = hashlib.sha256(word.encode()).digest()
        vector[int.from_bytes(digest[:4], "big") % dimensions] += 1 if digest[4] & 1 else -1
    length = math.sqrt(sum(x * x for x in vector)) or 1
    return [round(x / length, 6) for x in vector]


try:
    with open(os.environ["BATCHFLEET_INPUT"], encoding="utf-8") as text:
        lines = [line.strip() for line in text if line.strip()]
except (FileNotFoundError, UnicodeDecodeError) as err:
    print("the input is no text:", err, file=sys.stderr)
    sys.exit(65)  # EX_DATAERR: no other attempt would end better
with open(os.path.join(os.environ["BATCHFLEET_OUTPUT"], "vectors.jsonl"), "w", encoding="utf-8") as out:
    for done, line in enumerate(lines, 1):
        out.write(json.dumps({"text": line, "vector": model(line)}) + "\n")
        print(f"::progress {done}/{len(lines)}", flush=True)
