import io

import pytest

from fleet.errors import Unavailable
from fleet.queue import SERVICE, Topic
from fleet.services import open_services
from fleet.session import Session
from fleet.submit import NotSubmitted, submit

from .conftest import DOCUMENTS, eventually


@pytest.fixture
def parts(fleet):
    s = open_services(fleet.settings)
    return s.store, s.board, s.topic


def uploads(fleet):
    return [p for p in fleet.store.rglob("*") if p.is_file()]


def test_f61_a_document_becomes_a_job_that_workers_complete(fleet, parts):
    fleet.worker()
    with (DOCUMENTS / "cairo.pdf").open("rb") as f:
        job_id = submit(*parts, "cairo.pdf", f)
    eventually(lambda: fleet.status(job_id)["status"] == "completed", "the job is complete")
    assert (fleet.store / "results" / job_id / "result.json").is_file()


def test_f61_a_submitted_job_waits_with_its_input_in_place(fleet, parts):
    job_id = submit(*parts, "x.pdf", io.BytesIO(b"%PDF-"))
    assert fleet.status(job_id)["message"] == "Waiting for a worker..."
    assert (fleet.store / "uploads" / job_id / "x.pdf").read_bytes() == b"%PDF-"
    assert len(fleet.messages()) == 1


def test_f61_no_job_waits_for_ever_when_the_queue_is_away(fleet, parts):
    fleet.emulator.kill()
    with pytest.raises(NotSubmitted, match="Pub/Sub") as caught:
        submit(*parts, "x.pdf", io.BytesIO(b"%PDF-"))
    assert caught.value.stranded is None
    [key] = fleet.db.keys("job:*")
    assert fleet.status(key[4:])["status"] == "canceled"
    assert uploads(fleet) == [], "an input that nobody will read is left behind"


def test_f61_nothing_is_queued_when_redis_is_away(fleet, parts):
    fleet.redis.kill()
    with pytest.raises(NotSubmitted, match="Redis") as caught:
        submit(*parts, "x.pdf", io.BytesIO(b"%PDF-"))
    assert caught.value.stranded
    assert fleet.messages() == []


def test_f61_nothing_is_queued_when_the_storage_is_away(fleet, parts):
    fleet.store.rename(fleet.folder / "gone")
    fleet.store.write_text("in the way")
    with pytest.raises(NotSubmitted, match="Storage"):
        submit(*parts, "x.pdf", io.BytesIO(b"%PDF-"))
    assert fleet.db.keys("job:*") == []
    assert fleet.messages() == []


def test_f61_input_and_status_are_there_before_the_message(fleet, parts):
    class Looks(Topic):
        def publish(self, job_id, pdf_path, bucket):
            seen.append((fleet.status(job_id)["status"], (fleet.store / pdf_path).read_bytes()))
            super().publish(job_id, pdf_path, bucket)

    seen = []
    submit(parts[0], parts[1], Looks(fleet.settings), "x.pdf", io.BytesIO(b"%PDF-"))
    assert seen == [("queued", b"%PDF-")]


class LosesAnswers(Topic):
    """Publishes, and says that it did not, as a network does that breaks."""

    def __init__(self, settings, then):
        super().__init__(settings)
        self.then = then

    def publish(self, job_id, pdf_path, bucket):
        super().publish(job_id, pdf_path, bucket)
        self.then(job_id)
        raise Unavailable(SERVICE, "no answer in time")


def test_f61_a_job_that_has_begun_is_not_withdrawn(fleet, parts):
    """The message has arrived although its answer was lost."""
    fleet.mock_worker()
    begun = LosesAnswers(fleet.settings, lambda id: eventually(lambda: fleet.status(id)["status"] != "queued", "begun"))
    job_id = submit(parts[0], parts[1], begun, "x.pdf", io.BytesIO(b"%PDF-"))
    eventually(lambda: fleet.status(job_id)["status"] == "completed", "the job is complete")


def test_f61_workers_leave_a_withdrawn_job_alone(fleet, parts):
    with pytest.raises(NotSubmitted):
        submit(parts[0], parts[1], LosesAnswers(fleet.settings, lambda _: None), "x.pdf", io.BytesIO(b"%PDF-"))
    fleet.mock_worker()
    with (DOCUMENTS / "cairo.pdf").open("rb") as f:
        later = submit(*parts, "later.pdf", f)
    eventually(lambda: fleet.status(later)["status"] == "completed", "a later job is complete")
    states = sorted(fleet.status(key[4:])["status"] for key in fleet.db.keys("job:*"))
    assert states == ["canceled", "completed"]


def test_f61_a_stranded_job_is_withdrawn_when_redis_is_back(fleet, parts):
    store, board, _ = parts

    class Dies(Topic):
        def publish(self, *_):
            fleet.redis.freeze()
            raise Unavailable(SERVICE, "away")

    with pytest.raises(NotSubmitted) as caught:
        submit(store, board, Dies(fleet.settings), "x.pdf", io.BytesIO(b"%PDF-"))
    stranded = caught.value.stranded
    session = Session()
    session.finish([], caught.value)
    session.withdraw_stranded(board)
    assert session.stranded == [stranded]
    fleet.redis.thaw()
    assert fleet.status(stranded)["status"] == "queued"
    session.withdraw_stranded(board)
    assert session.stranded == []
    assert fleet.status(stranded)["status"] == "canceled"
