"""What a job has left in the storage (processor/SPEC.md)."""

import json
from dataclasses import dataclass
from typing import Any

from fleet.errors import NotFound
from fleet.names import PAGES, RESULT, result_name
from fleet.storage import Store, read_all

# A result has some 600 bytes and the document's outline, which may be long. A
# larger one can be downloaded, but is not read for the page.
MAX_RESULT = 1 << 20
MAX_DAMAGE = 300  # characters of a warning that are shown


@dataclass(frozen=True)
class Result:
    """What to tell of a job's result. Numbers are None where it does not say."""

    pages: int | None = None
    words: int | None = None
    seconds: float | None = None
    failed_pages: int = 0
    warnings: int = 0  # pages with a warning
    damage: str = ""  # the first warning, of the document or a page; "" if it is not damaged
    pages_size: int | None = None  # bytes of pages.jsonl; None if there is none
    problem: str = ""  # why nothing is known, for people
    present: bool = True  # whether result.json can be downloaded


def find(store: Store, job_id: str) -> Result | None:
    """A job's result; None if there is none, so that the job is not complete.
    Raises Unavailable."""
    try:
        content = read_all(store, result_name(job_id, RESULT), MAX_RESULT)
    except NotFound:
        return None
    try:
        pages_size = store.size(result_name(job_id, PAGES))
    except NotFound:  # a document without pages
        pages_size = None
    if content is None:
        return Result(pages_size=pages_size, problem="The result is too large to be shown here, but can be downloaded.")
    return parse(content, pages_size)


def parse(content: bytes, pages_size: int | None = None) -> Result:
    """The result that result.json says."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return Result(pages_size=pages_size, problem="The result cannot be read: it is not a JSON object.")
    document = fields.get("document")
    warnings = fields.get("warnings")
    if not isinstance(warnings, list):
        warnings = []
    touched = _count(fields.get("damaged_pages"))  # results of earlier versions do not say
    return Result(
        pages=_count(fields.get("pages")),
        words=_count(document.get("words")) if isinstance(document, dict) else None,
        seconds=_seconds(fields.get("processing_time_seconds")),
        failed_pages=_count(fields.get("failed_pages")) or 0,
        warnings=len(warnings) if touched is None else touched,
        damage=_damage(warnings) if fields.get("damaged") is True else "",
        pages_size=pages_size,
    )


def _damage(warnings: list[Any]) -> str:
    first = warnings[0] if warnings and isinstance(warnings[0], str) else "see its warnings"
    return first[:MAX_DAMAGE]


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60 else None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return float(value)
