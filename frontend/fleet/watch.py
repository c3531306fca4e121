"""The jobs that one visitor watches."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import Unavailable
from fleet.results import Result, find
from fleet.status import Board, Status
from fleet.storage import Store

# "No key" means that nothing is known of a job, also of one that runs in a fleet
# whose Redis has lost its data: its next report puts the key back. Looked for so
# long, and not without end.
MISSING_SECONDS = 60.0


@dataclass
class Watched:
    """One job and what was last known of it."""

    job_id: str
    file: str  # what people call it; empty if nobody knows
    status: Status | None = None  # None before anything was known
    gone: str = ""  # "missing" or "unreadable" when Redis says nothing of it now
    gone_since: float = 0.0  # by time.monotonic
    result: Result | None = None

    @property
    def live(self) -> bool:
        """Whether there may be news of it, and so a reason to ask."""
        if self.gone:
            return self.result is None and time.monotonic() - self.gone_since < MISSING_SECONDS
        return self.status is None or not self.status.ended

    @property
    def completed(self) -> bool:
        return not self.gone and self.status is not None and self.status.status == "completed"

    def note(self, known: bool, status: Status | None) -> None:
        """Take in what Redis says: whether there is a key, and what it holds."""
        gone = "" if status else "unreadable" if known else "missing"
        if gone and not self.gone:
            self.gone_since = time.monotonic()
        self.gone = gone
        if status:
            self.status = status


def refresh(board: Board, jobs: Iterable[Watched]) -> None:
    """Ask for news of the jobs that may have some, in one round trip. Raises
    Unavailable, and then leaves them as they were."""
    live = [job for job in jobs if job.live]
    if not live:
        return
    found = board.get([job.job_id for job in live])
    for job in live:
        job.note(job.job_id in found, found.get(job.job_id))


def load_results(store: Store, jobs: Iterable[Watched]) -> Unavailable | None:
    """Read the results that have come in since: those of completed jobs, and of
    jobs whose status has expired. Returns why it gave up, if the storage is away;
    then the next call tries again."""
    for job in jobs:
        if job.result or not (job.completed or job.gone == "missing"):
            continue
        try:
            result = find(store, job.job_id)
        except Unavailable as err:
            return err
        if result is None and job.completed:
            result = Result(problem="The job is complete, but its result is no longer in the storage.", present=False)
        job.result = result
    return None
