"""Reads what a relay uploads. Nothing longer than a few chunks is ever in memory."""

import email
import hashlib
import json
import os
import re

CHUNK, MAX_JSON = 64 << 10, 256 << 10  # bytes
NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # what may become part of a path
HEX = re.compile("[0-9a-f]{64}")


def check(ok, status, why):
    """Refuse the request with a status unless ok."""
    if not ok:
        raise ValueError(status, why)


def join(chunks, limit, what):
    data = b""
    for chunk in chunks:
        data += chunk
        check(len(data) <= limit, 413, f"{what} is longer than {limit} bytes")
    return data


def parts(read, boundary):
    """Yield the headers of each part of a multipart body, and its content in chunks; read(n) reads from the body."""
    buffer = b"\r\n"  # so that the first boundary looks like the others

    def more():
        nonlocal buffer
        data = read(CHUNK)
        check(data, 400, "the body ends within a part")
        buffer += data

    def until(mark):
        nonlocal buffer
        while (at := buffer.find(mark)) < 0:
            safe, buffer = buffer[: -len(mark)], buffer[-len(mark) :]  # mark may have begun in the last bytes
            yield safe
            more()
        last, buffer = buffer[:at], buffer[at + len(mark) :]
        yield last

    line = b"\r\n--" + boundary.encode()
    join(until(line), MAX_JSON, "what stands before the first part")
    while True:
        while len(buffer) < 2:
            more()
        if buffer.startswith(b"--"):
            return
        head = join(until(b"\r\n\r\n"), MAX_JSON, "the head of a part")
        content = until(line)
        yield email.message_from_bytes(head.lstrip()), content
        for _ in content:  # what the caller has left
            pass


def manifest(body, job_id, task_id):
    """Return the JSON that says what an upload has, with all that is used of it checked: it comes from the wire."""
    try:
        m = json.loads(body)
        names = {a["name"] for a in m["artifacts"] if NAME.fullmatch(a["name"]) and HEX.fullmatch(a["sha256"])}
        good = (m["job_id"], m["task_id"]) == (job_id, task_id) and 0 < len(names) == len(m["artifacts"])
        good = good and isinstance(m["kind"], str)
        good = good and all(a["size_bytes"] >= 0 and "/" in a["content_type"] for a in m["artifacts"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        raise ValueError(422, f"the metadata is not as in the contract: {e!r}") from e
    check(good, 422, "the metadata has other ids than the request, no artifacts, or a wrong name, size, type or sha256")
    return m


def save(form, job_id, task_id, directory):
    """Write the files of an upload to directory, each as the metadata before them promised, and return that."""
    head, content = next(form, (None, ()))
    first = head and head.get_param("name", header="Content-Disposition")
    check(first == "metadata", 422, "the first part must be metadata")
    m = manifest(join(content, MAX_JSON, "the metadata"), job_id, task_id)
    for a in m["artifacts"]:
        head, content = next(form, (None, ()))
        check(head and head.get_filename() == a["name"], 422, f"the next part must be the file {a['name']}")
        size, digest = 0, hashlib.sha256()
        with (directory / a["name"]).open("xb") as file:
            for chunk in content:
                size += len(chunk)
                check(size <= a["size_bytes"], 422, f"{a['name']} is longer than promised")
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        check((size, digest.hexdigest()) == (a["size_bytes"], a["sha256"]), 422, f"{a['name']} is not as promised")
    check(next(form, None) is None, 422, "there are more parts than promised")
    return m
