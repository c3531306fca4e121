"""Making a job of a file: store, record, publish, in this order."""

import logging
from typing import BinaryIO

from fleet.errors import Unavailable
from fleet.names import new_id, upload_name
from fleet.queue import Topic
from fleet.status import Board
from fleet.storage import Store

log = logging.getLogger(__name__)


class NotSubmitted(Exception):
    """A file did not become a job; cause says which service let us down.

    stranded is the id of a job that may be on record as waiting although nobody
    will run it, because Redis was away when it was to be withdrawn; None as a
    rule. Withdraw it when Redis is back.
    """

    def __init__(self, cause: Unavailable, stranded: str | None = None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.stranded = stranded


def submit(store: Store, board: Board, topic: Topic, file: str, content: BinaryIO) -> str:
    """Make a job of a file and return its id; raises NotSubmitted.

    The input comes first, so that no worker looks for what is not there yet, and
    the status before the message, so that "waiting" never follows "processing".
    A job whose message cannot be sent is withdrawn, or it would wait without end.
    """
    job_id = new_id()
    name = upload_name(job_id, file)
    try:
        store.put(name, content)
    except Unavailable as err:
        log.warning("cannot store the input of job %s: %s", job_id, err)
        raise NotSubmitted(err) from err
    try:
        board.queue(job_id)
        topic.publish(job_id, name, store.bucket)
    except Unavailable as err:
        log.warning("cannot queue job %s: %s", job_id, err)
        _take_back(store, board, job_id, name, err)
    log.info("queued job %s", job_id)
    return job_id


def _take_back(store: Store, board: Board, job_id: str, name: str, why: Unavailable) -> None:
    """Undo a job that could not be queued and raise NotSubmitted; return if it
    has been queued after all and a worker has begun: then only the answer was
    lost."""
    try:
        withdrawn = board.withdraw(job_id)
    except Unavailable:
        raise NotSubmitted(why, stranded=job_id) from why
    if not withdrawn:
        return
    try:
        store.delete(name)  # a job that has ended reads it no more
    except Unavailable as err:
        log.warning("cannot delete %s: %s", name, err)
    raise NotSubmitted(why) from why
