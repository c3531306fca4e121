"""The table of everybody's jobs."""

from dataclasses import dataclass

import pandas as pd

from fleet.cards import LABELS
from fleet.services import Services
from fleet.status import Status

MAX_ROWS = 200


@dataclass(frozen=True)
class Listing:
    """Rows for people, and what they stand for."""

    rows: pd.DataFrame
    ids: list[str]
    files: list[str]  # empty where nobody knows
    complete: bool


def table(services: Services, own: set[str]) -> Listing:
    """The jobs of the last 24 hours, the visitor's own first, then those that
    changed last. Raises Unavailable.

    How far the visitor's own jobs are is left out while they run: the cards say
    so, every two seconds, and the table would contradict them.
    """
    recent = services.board.recent(MAX_ROWS)
    # Stable: within both parts the order stays.
    jobs = sorted(recent.jobs, key=lambda job: job[0] not in own)
    ids = [id for id, _ in jobs]
    names = services.file_names(ids)
    rows = pd.DataFrame([_row(names.get(id, ""), id, status, id in own) for id, status in jobs], dtype=object)
    if len(rows):
        rows["Changed"] = pd.to_datetime(rows["Changed"], utc=True)
    return Listing(rows, ids, [names.get(id, "") for id in ids], recent.complete)


def _row(file: str, job_id: str, status: Status, own: bool) -> dict:
    on_card = own and not status.ended
    return {
        "File": file or f"Job {job_id}",  # what is to be told apart needs a name
        "State": LABELS[status.status] + (" (yours)" if own else ""),
        "Progress": None if on_card else status.progress,
        "Changed": None if on_card else status.updated_at,
        "Message": "See above" if on_card else status.error_msg or status.message,
        "Job": job_id,
    }
