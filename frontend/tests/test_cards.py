from datetime import UTC, datetime, timedelta

import pytest

from fleet import cards
from fleet.results import Result, parse
from fleet.status import Status
from fleet.watch import MISSING_SECONDS, Watched

NOW = datetime(2026, 2, 12, 6, 35, tzinfo=UTC)


def card(status=None, **fields):
    return cards.card(Watched("id", "x.pdf", status, **fields), NOW)


def test_f61_nothing_from_outside_becomes_markup():
    evil = '<img src=x onerror=alert(1)>"&'
    html = cards.card(Watched('i"d', evil, Status("failed", 3, evil, evil)), NOW)
    assert "<img" not in html and 'i"d' not in html and '>"' not in html.replace('">', "")
    assert "&lt;img src=x onerror=alert(1)&gt;&quot;&amp;" in html


def test_f61_what_a_reader_would_not_see_is_written_out():
    evil = "invoice\u202efdp.exe\x1b[2J\x00"
    html = cards.card(Watched("id", evil, Status("failed", 3, "", evil)), NOW)
    assert html.count(r"invoice\u202efdp.exe\x1b[2J\x00") == 3 and "\u202e" not in html and "\x1b" not in html


def test_f61_a_job_nobody_takes_gets_a_word_after_a_minute():
    said = "No worker has taken it yet"
    assert said not in card(Status("queued", 0, updated_at=NOW - timedelta(seconds=59)))
    assert said in card(Status("queued", 0, updated_at=NOW - timedelta(seconds=61)))


def test_f61_progress_is_readable_by_machines_and_people():
    html = card(Status("processing", 41, "Page 5/12 analyzing..."))
    assert 'aria-valuenow="41"' in html and "width:41%" in html and "Page 5/12 analyzing... 41 %" in html


def test_f21_a_silent_worker_is_said_instead_of_its_progress():
    html = card(Status("processing", 15, "Page 3/20 analyzing...", silent=40))
    assert "Nothing heard from the worker for 40 s" in html and "Page 3/20" not in html


def test_f61_a_job_without_pages_offers_no_pages():
    html = card(Status("completed", 100), result=Result(pages=0))
    assert "result.json" in html and "pages.jsonl" not in html


@pytest.mark.parametrize(
    ("number", "want"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1,023 bytes"), (1024, "1.0 kB"), (200 << 20, "200 MB"), (1 << 30, "1.0 GB"),
     ((1 << 20) - 1, "1.0 MB"), (5000 << 30, "5000 GB")],
)  # fmt: skip
def test_f61_sizes_are_in_words(number, want):
    assert cards.size(number) == want


@pytest.mark.parametrize("seconds, want", [(0, "less than 0.1 s"), (0.36, "0.4 s"), (45.2, "45 s"), (750, "12 min")])
def test_f61_times_are_in_words(seconds, want):
    assert cards.duration(seconds) == want


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"[" * 9000, b'{"pages":"x","document":[],"warnings":3,"failed_pages":-1}']
)
def test_f61_a_result_in_another_form_is_no_end_of_the_page(content):
    result = parse(content, 5)
    assert (result.pages, result.words, result.seconds, result.failed_pages, result.pages_size) == (
        None,
        None,
        None,
        0,
        5,
    )


def test_f61_jobs_that_bring_no_news_are_not_asked_for(monkeypatch):
    job = Watched("id", "x.pdf")
    assert job.live
    for status, live in (("queued", True), ("processing", True), ("completed", False), ("failed", False)):
        job.note(True, Status(status, 0))
        assert job.live is live
    job.note(False, None)
    assert job.live, "a running fleet may put the key back"
    job.gone_since -= MISSING_SECONDS
    assert not job.live


def test_f76_a_damaged_document_says_so():
    warnings = b'["part of it is <lost>","page 1: cut","page 2: cut"]'
    damaged = parse(b'{"pages":9,"damaged":true,"damaged_pages":2,"warnings":' + warnings + b"}")
    html = card(Status("completed", 100), result=damaged)
    assert "The document is damaged: part of it is &lt;lost&gt;" in html and "2 pages with a warning" in html
    for content in (b'{"pages":9,"damaged":false,"damaged_pages":0,"warnings":[]}', b'{"pages":9}'):
        html = card(Status("completed", 100), result=parse(content))
        assert "damaged" not in html and "warning" not in html
    assert parse(b'{"damaged":true,"warnings":[{}]}').damage == "see its warnings"
    assert len(parse(b'{"damaged":true,"warnings":["' + b"x" * 5000 + b'"]}').damage) == 300
