"""What the page knows of one visitor, while the browser's tab is open."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from fleet.errors import Unavailable
from fleet.status import Board
from fleet.submit import NotSubmitted
from fleet.watch import Watched

MAX_WATCHED = 500  # jobs
MAX_IN_ADDRESS = 50  # job ids in the page's address, some 2 kB


@dataclass
class Session:
    """One visitor's jobs and what is under way.

    Streamlit runs the page in one thread, as a rule. When the visitor does
    something during a run it starts the next one at once, in another thread, and
    stops the first at its next call to Streamlit: until then there are two.
    """

    jobs: list[Watched] = field(default_factory=list)  # newest batch first
    opened: Watched | None = None  # chosen from the history
    place: int = 0  # in jobs, of the next one
    upload: int = 0  # number of the upload field, which a new number empties
    sent: set[str] = field(default_factory=set)  # ids of uploaded files that have become jobs
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)  # held while a file becomes a job
    sending: bool = False
    failure: NotSubmitted | None = None  # why sending has stopped
    listed: list[str] | None = None  # states of jobs when the history was read; None while it is to be read
    stranded: list[str] = field(default_factory=list)  # job ids to withdraw

    def watch(self, job_id: str, file: str) -> None:
        """Watch a job. Those of one batch stay in their order, above those of
        earlier batches."""
        if any(job.job_id == job_id for job in self.jobs):
            return
        self.jobs.insert(self.place, Watched(job_id, file))
        self.place += 1
        del self.jobs[MAX_WATCHED:]

    def forget_ended(self) -> None:
        """Watch no longer what can bring no news."""
        self.jobs = [job for job in self.jobs if job.live]
        self.place = 0

    def start(self) -> None:
        """Begin to send what is selected."""
        self.sending = True
        self.failure = None
        self.place = 0

    def finish(self, selected: Iterable[str], failure: NotSubmitted | None) -> None:
        """Stop sending; selected are the ids of all files in the upload field."""
        self.sending = False
        self.failure = failure
        if failure and failure.stranded:
            self.stranded.append(failure.stranded)
        if failure is None and self.sent.issuperset(selected):
            self.upload += 1  # also lets go of the memory that holds the files

    def withdraw_stranded(self, board: Board) -> None:
        """Withdraw jobs that nobody will run, if Redis is back."""
        try:
            while self.stranded:
                if not board.withdraw(self.stranded[-1]):
                    self.watch(self.stranded[-1], "")  # a worker runs it after all
                self.stranded.pop()
        except Unavailable:
            pass  # stays on the list for the next time

    def states(self) -> list[str]:
        """In which state each job is; empty for one of which nothing is known."""
        return [job.status.status if job.status and not job.gone else "" for job in self.jobs]

    def address(self) -> list[str]:
        """The ids to keep in the page's address, so that a reload, which begins
        a new session, shows the same jobs."""
        return [job.job_id for job in self.jobs[:MAX_IN_ADDRESS]]
