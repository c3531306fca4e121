"""What is worth telling about a file before it is sent."""

from typing import BinaryIO

from fleet.cards import size

MAGIC = b"%PDF-"
MAGIC_WITHIN = 1024  # bytes; readers of PDF look no further for it


def refusal(length: int, limit: int) -> str:
    """Why a file of so many bytes is not sent; empty if it is."""
    if length > limit:
        return f"is larger than {size(limit)} and will not be sent"
    return ""


def warning(content: BinaryIO, length: int) -> str:
    """Why a file will probably fail; empty if nothing speaks against it. The
    workers have the last word, so it may be sent all the same."""
    if length == 0:
        return "is empty and will probably fail"
    content.seek(0)
    head = content.read(MAGIC_WITHIN + len(MAGIC) - 1)
    content.seek(0)
    if MAGIC not in head:
        return "does not look like a PDF and will probably fail"
    return ""
