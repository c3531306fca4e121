"""The page in every state, against real services."""

from html import unescape

from fleet import view

from .conftest import DOCUMENTS, eventually

NOTE = ("note.txt", b"hello", "text/plain")
EMPTY = ("leer.pdf", b"", "application/pdf")


def pdf(name: str, content: bytes = b"%PDF-1.4 and so on") -> tuple[str, bytes, str]:
    return (name, content, "application/pdf")


def texts(at) -> str:
    """All that the page says."""
    assert not at.exception, at.exception[0].stack_trace
    parts = [*at.title, *at.subheader, *at.markdown, *at.caption, *at.error, *at.warning, *at.info]
    marked = [unescape(e.value) for e in at.html if 'class="bf-' in e.value]
    return "\n".join([e.value for e in parts] + marked)


def cards(at) -> list[str]:
    assert not at.exception, at.exception[0].stack_trace
    return [e.value for e in at.html if 'class="bf-job"' in e.value]


def start(at):
    return at.button(key="start")


def select(at, *files):
    at.file_uploader[0].set_value(list(files)).run()
    return at


def result(fleet, job_id, **fields):
    document = {"job_id": job_id, "pages": 15, "processing_time_seconds": 45.2, "document": {"words": 12753}}
    fleet.put_object(f"results/{job_id}/result.json", document | fields)


def complete(fleet, job_id):
    fleet.put_status(job_id, status="completed", progress=100, result_url=f"results/{job_id}/result.json")


def test_f61_an_empty_page_says_what_it_is_for(page):
    at = page()
    assert "Upload PDF documents" in texts(at)
    assert "No jobs yet" in texts(at)
    assert start(at).disabled


def test_f61_wrong_settings_are_shown_instead_of_the_page(page, monkeypatch):
    monkeypatch.setenv("REDIS_PORT", "many")
    monkeypatch.setenv("STORAGE_TYPE", "AZURE")
    at = page()
    assert "REDIS_PORT is 'many'" in texts(at) and "STORAGE_TYPE is 'AZURE'" in texts(at)
    assert len(at.file_uploader) == 0


def test_f61_documents_are_sent_and_their_jobs_shown(fleet, page):
    at = select(page(), pdf("one.pdf"), pdf("zwei ü.pdf"), pdf("one.pdf"))
    assert start(at).label == "Start processing 3 documents"
    start(at).click().run()
    assert [("one.pdf" in c, "zwei ü.pdf" in c) for c in cards(at)] == [(True, False), (False, True), (True, False)]
    assert "3 queued" in texts(at)
    assert len(at.query_params["job"]) == 3
    assert len(fleet.messages()) == 3
    assert len(list(fleet.store.rglob("*.pdf"))) == 3
    at.run()
    assert start(at).disabled, "the documents that were sent are still selected"


def test_f61_a_hundred_documents_at_once(fleet, page):
    fleet.mock_worker(WORKER_SLOTS="8")
    at = select(page(), *(pdf(f"document {i:03}.pdf") for i in range(100)))
    start(at).click().run()
    assert len(cards(at)) == 20
    assert "document 000.pdf" in cards(at)[0]
    eventually(lambda: "100 succeeded" in texts(at.run()), "all are complete", 60)
    at.pagination[0].set_value(5).run()
    assert "document 099.pdf" in cards(at)[-1]
    assert "Download result.json" in cards(at)[-1]


def test_f61_doubtful_files_are_told_before_and_may_be_sent(fleet, page):
    fleet.worker()
    at = select(page(), NOTE, EMPTY, pdf("late.pdf", b"\n" * 1000 + b"%PDF-1.4"))
    assert "`note.txt` does not look like a PDF and will probably fail" in texts(at)
    assert "`leer.pdf` is empty" in texts(at)
    assert "late.pdf" not in texts(at)
    start(at).click().run()
    eventually(lambda: "3 failed" in texts(at.run()), "the workers have the last word")
    assert "input is not a PDF" in cards(at)[0]


def test_f61_a_file_larger_than_the_limit_is_not_sent(fleet, page, monkeypatch):
    monkeypatch.setenv("MAX_INPUT_BYTES", "1000")
    at = select(page(), pdf("large.pdf", b"%PDF-" + bytes(996)), pdf("small.pdf", b"%PDF-" + bytes(995)))
    assert "`large.pdf` is larger than 1,000 bytes and will not be sent" in texts(at)
    start(at).click().run()
    assert ["small.pdf" in c for c in cards(at)] == [True]


def test_f61_names_from_outside_are_shown_as_they_are(page):
    name = "`![x](http://evil/)` <b>:red[x] $a$.txt"
    at = select(page(), (name, b"x", "text/plain"))
    assert "`'![x](http://evil/)' <b>:red[x] $a$.txt` does not look" in at.warning[0].value
    start(at).click().run()
    assert "&lt;b&gt;:red[x] $a$.txt" in cards(at)[0]


def test_f61_a_running_job_shows_its_progress(fleet, page):
    fleet.put_status("a", status="processing", progress=41, message="Page 5/12 analyzing...")
    at = page("a")
    assert "Page 5/12 analyzing... 41 %" in cards(at)[0]
    fleet.put_status("a", status="processing", progress=50, message="Page 6/12 analyzing...")
    at.run()
    assert 'aria-valuenow="50"' in cards(at)[0]


def test_f61_a_completed_job_shows_facts_and_downloads(fleet, page):
    complete(fleet, "a")
    result(fleet, "a", failed_pages=1, warnings=[{"page": 1}, {"page": 2}])
    fleet.put_object("results/a/pages.jsonl", b"x" * 2048)
    fleet.put_object("uploads/a/mine.pdf", b"%PDF-")
    [card] = cards(page("a"))
    assert "mine.pdf" in card, "a reload has lost the file's name"
    assert "15 pages · 12,753 words · read in 45 s" in card
    assert "1 page could not be read." in card and "2 pages with a warning" in card
    assert 'href="download/a/result.json"' in card and "pages.jsonl (2.0 kB)" in card


def test_f61_a_completed_job_without_its_result_says_so(fleet, page):
    complete(fleet, "a")
    [card] = cards(page("a"))
    assert "no longer in the storage" in card and "href" not in card


def test_f61_results_that_cannot_be_shown_can_be_downloaded(fleet, page):
    for job, content in (("junk", b"\xff{"), ("huge", b" " * (2 << 20) + b"{}")):
        complete(fleet, job)
        fleet.put_object(f"results/{job}/result.json", content)
    junk, huge = cards(page("junk", "huge"))
    assert "not a JSON object" in junk and "download/junk/result.json" in junk
    assert "too large to be shown" in huge and "download/huge/result.json" in huge


def test_f61_a_failed_job_says_why_and_where(fleet, page):
    fleet.put_status("a", status="failed", progress=25, message="Error occurred", error_msg="page 4: no <contents>")
    [card] = cards(page("a"))
    assert "Stopped at 25 %. page 4: no &lt;contents&gt;" in card


def test_f61_a_canceled_job_says_so(fleet, page):
    fleet.put_status("a", status="canceled", message="Canceled")
    assert "Canceled. No result will come." in cards(page("a"))[0]


def test_f61_a_job_that_nobody_takes_gets_a_word(fleet, page):
    fleet.put_status("a", message="Waiting for a worker...", updated_at="2026-02-12T06:35:00Z")
    assert "No worker has taken it yet" in cards(page("a"))[0]


def test_f61_an_expired_status_is_explained(fleet, page):
    result(fleet, "kept")
    gone, kept = cards(page("gone", "kept"))
    assert "Nothing is known of this job" in gone and "href" not in gone
    assert "has expired, but its result is still there" in kept and "download/kept/result.json" in kept


def test_f61_a_malformed_status_is_explained_and_recovers(fleet, page):
    fleet.db.set("job:a", '{"status": "comple')
    at = page("a")
    assert "cannot be read" in cards(at)[0]
    fleet.put_status("a", status="processing", message="Page 1/2 analyzing...")
    assert "Page 1/2" in cards(at.run())[0]


def test_f61_what_is_no_job_id_in_the_address_is_ignored(page):
    at = page("../x", "<b>", "")
    assert cards(at) == []


def test_f61_redis_may_go_and_come_back(fleet, page):
    fleet.put_status("a", status="processing", progress=41, message="Page 5/12 analyzing...")
    at = select(page("a"), pdf("x.pdf"))
    fleet.redis.kill()
    at.run()
    assert "Redis cannot be used now" in texts(at)
    assert f"127.0.0.1:{fleet.redis_port}" in texts(at)
    assert "Page 5/12" in cards(at)[0], "what was last known is gone"
    assert start(at).disabled
    fleet.redis.start()
    fleet.put_status("a", status="processing", progress=50, message="Page 6/12 analyzing...")
    at.run()
    assert "cannot be used" not in texts(at) and "Page 6/12" in cards(at)[0]
    assert not start(at).disabled


def test_f61_pubsub_may_go_and_come_back(fleet, page):
    fleet.emulator.kill()
    at = select(page(), pdf("x.pdf"))
    assert "Pub/Sub cannot be used now" in texts(at)
    assert start(at).disabled
    fleet.emulator.start()
    at.run()
    assert "cannot be used" not in texts(at)
    start(at).click().run()
    assert len(cards(at)) == 1


def test_f61_the_storage_may_go_and_come_back(fleet, page):
    complete(fleet, "a")
    result(fleet, "a")
    away = fleet.folder / "away"
    fleet.store.rename(away)
    fleet.store.write_text("in the way")
    at = page("a")
    assert "Storage cannot be used now" in texts(at)
    assert "href" not in cards(at)[0]
    fleet.store.unlink()
    away.rename(fleet.store)
    at.run()
    assert "cannot be used" not in texts(at) and "download/a/result.json" in cards(at)[0]


def test_f61_sending_that_stops_halfway_goes_on_where_it_stopped(fleet, page, monkeypatch):
    at = select(page(), *(pdf(f"{i}.pdf") for i in range(3)))
    real, files = view.submit, []

    def dies_at_the_second(*args):
        files.append(args)
        if len(files) == 2:
            fleet.emulator.kill()
        return real(*args)

    monkeypatch.setattr(view, "submit", dies_at_the_second)
    start(at).click().run()
    assert "Pub/Sub did not take a document" in texts(at)
    assert "1 document of this selection was sent before" in texts(at)
    assert "2 documents are not sent and still selected" in texts(at)
    assert ["0.pdf" in c for c in cards(at)] == [True]
    fleet.emulator.start()
    at.run()
    start(at).click().run()
    assert len(cards(at)) == 3
    states = sorted(fleet.status(key[4:])["status"] for key in fleet.db.keys("job:*"))
    assert states == ["canceled", "queued", "queued", "queued"]
    assert "did not take" not in texts(at)


def test_f61_the_history_shows_everybodys_jobs_own_ones_first(fleet, page):
    fleet.put_status("old", status="failed", error_msg="broken", updated_at="2026-02-12T06:00:00Z")
    fleet.put_status("new", status="processing", progress=5, updated_at="2026-02-12T06:30:00Z")
    fleet.put_status("mine", status="completed", progress=100, updated_at="2026-02-12T05:00:00Z")
    fleet.put_object("uploads/new/Neu.pdf", b"")
    rows = page("mine").dataframe[0].value
    assert list(rows["Job"]) == ["mine", "new", "old"]
    assert list(rows["File"]) == ["Job mine", "Neu.pdf", "Job old"]
    assert list(rows["State"]) == ["Succeeded (yours)", "Running", "Failed"]
    assert list(rows["Message"])[2] == "broken"


def test_f61_the_history_leaves_running_jobs_of_ones_own_to_their_cards(fleet, page):
    fleet.put_status("mine", status="processing", progress=5, message="Page 1/20 analyzing...")
    rows = page("mine").dataframe[0].value
    assert list(rows["State"]) == ["Running (yours)"]
    assert rows[["Progress", "Changed"]].isna().all(axis=None)
    assert list(rows["Message"]) == ["See above"]


def test_f61_the_history_is_bounded_and_says_so(fleet, page):
    for i in range(205):
        fleet.put_status(f"j{i:03}", status="canceled")
    at = page()
    assert len(at.dataframe[0].value) == 200
    assert "more jobs than the 200 shown" in texts(at)


def test_f61_finished_documents_can_be_cleared(fleet, page):
    fleet.put_status("a", status="failed")
    fleet.put_status("b", status="processing")
    at = page("a", "b")
    at.button(key="clear").click().run()
    assert len(cards(at)) == 1
    assert at.query_params["job"] in ("b", ["b"])


def test_f61_a_real_document_from_end_to_end(fleet, page):
    fleet.worker()
    at = select(page(), pdf("groff.pdf", (DOCUMENTS / "groff.pdf").read_bytes()))
    start(at).click().run()
    eventually(lambda: "1 succeeded" in texts(at.run()), "the job is complete")
    assert "2 pages · 104 words" in cards(at)[0]
