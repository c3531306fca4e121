"""Job ids and names of objects, by the rules that the workers hold them to."""

import re
import unicodedata
import uuid

MAX_NAME_BYTES = 1024  # Cloud Storage's limit
MAX_SEGMENT_BYTES = 255  # that of the usual file systems
TEMP_PREFIX = ".batchfleet-put-"  # marks files that are being written

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def new_id() -> str:
    """A job id that nobody has used."""
    return str(uuid.uuid4())


def valid_id(text: str) -> bool:
    """Whether text is a job id, and so safe in keys, object names and URLs."""
    return bool(_ID.fullmatch(text)) and ".." not in text


def valid_name(name: str) -> bool:
    """Whether name can name an object in every store (storage/name.go)."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    if not 0 < length <= MAX_NAME_BYTES or "\\" in name or name.startswith(".well-known/acme-challenge/"):
        return False
    if any(unicodedata.category(c) == "Cc" for c in name):
        return False
    return all(map(_valid_segment, name.split("/")))


def _valid_segment(segment: str) -> bool:
    return (
        segment not in ("", ".", "..")
        and len(segment.encode()) <= MAX_SEGMENT_BYTES
        and not segment.startswith(TEMP_PREFIX)
    )


def upload_name(job_id: str, file: str) -> str:
    """Where the fleet keeps the input of a job.

    The last part of the file's own name if that can name an object, else
    "document" with its extension: what `batchfleet submit` does.
    """
    base = file.rsplit("/", 1)[-1]
    dot = base.rfind(".")
    extension = base[dot:] if dot >= 0 else ""
    folder = upload_folder(job_id)
    for candidate in (base, "document" + extension):
        if valid_name(folder + candidate):
            return folder + candidate
    return folder + "document"


def upload_folder(job_id: str) -> str:
    """The beginning of the names of a job's inputs, with its slash."""
    return f"uploads/{job_id}/"


RESULT = "result.json"
PAGES = "pages.jsonl"


def result_name(job_id: str, file: str) -> str:
    """The name of one of a job's result files, RESULT or PAGES."""
    return f"results/{job_id}/{file}"
