"""The page in a real browser, and its downloads, against a real fleet."""

import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Browser, Page, TimeoutError, expect, sync_playwright

from .conftest import DOCUMENTS, FRONTEND, Fleet, Process, eventually, free_port

WAIT_MS = 30_000


class Site:
    """The frontend as its image runs it: nothing but /tmp can be written."""

    def __init__(self, fleet: Fleet, **env: str):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        args = [sys.executable, "-B", "-m", "streamlit", "run", "app.py", "--server.address", "127.0.0.1"]
        self.process: Process = fleet.run(
            "site", [*args, "--server.port", str(port)], port, FRONTEND, HOME="/nonexistent", **env
        )

    def memory(self) -> int:
        """Bytes that the server holds."""
        return int(Path(f"/proc/{self.process.popen.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def site(fleet: Fleet) -> Site:
    return Site(fleet)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed: apt-get install chromium"
    with sync_playwright() as p:
        # CI runs as root in a container, where Chromium's own sandbox cannot.
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser: Browser, site: Site) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 1500})
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    elsewhere: list[str] = []
    page.on("request", lambda r: None if r.url.startswith((site.url, "data:", "blob:")) else elsewhere.append(r.url))
    page.goto(site.url)
    expect(page.get_by_role("heading", name="Last 24 hours")).to_be_visible()
    yield page
    context.close()
    assert elsewhere == [], "the page asks other servers"


def send(page: Page, *files: Path) -> None:
    page.locator("input[type=file]").set_input_files(list(files))
    page.get_by_role("button", name="Start processing 2 documents").click()


@contextmanager
def stutter(process: Process) -> Iterator[None]:
    """Make a process slow: it answers three times a second."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.03):
            process.freeze()
            time.sleep(0.3)
            process.thaw()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def polls(fleet: Fleet) -> int:
    """How often somebody has asked for statuses; workers do not ask this way."""
    return fleet.db.info("commandstats").get("cmdstat_mget", {}).get("calls", 0)


def test_f61_two_documents_in_a_browser_from_upload_to_download(fleet, visitor, tmp_path):
    for _ in range(2):
        fleet.worker()
    send(visitor, DOCUMENTS / "groff.pdf", DOCUMENTS / "cairo.pdf")
    expect(visitor.locator('.bf-job[data-state="completed"]')).to_have_count(2)
    expect(visitor.locator(".bf-job").first).to_contain_text("groff.pdf")
    expect(visitor.locator(".bf-job").first).to_contain_text("2 pages · 104 words")
    expect(visitor.get_by_text("2 succeeded", exact=True)).to_be_visible()
    with visitor.expect_download() as started:
        visitor.locator(".bf-job").first.get_by_role("link", name="Download result.json").click()
    result = json.loads(Path(started.value.path()).read_text())
    job_id = visitor.locator(".bf-job").first.get_attribute("data-job")
    assert started.value.suggested_filename == f"{job_id}-result.json"
    assert (result["job_id"], result["pages"], result["document"]["words"]) == (job_id, 2, 104)
    with visitor.expect_download() as started:
        visitor.locator(".bf-job").nth(1).get_by_role("link", name="Download pages.jsonl").click()
    lines = Path(started.value.path()).read_text().splitlines()
    assert [json.loads(line)["page"] for line in lines] == [1]
    visitor.screenshot(path=os.environ.get("FRONTEND_SCREENSHOT") or tmp_path / "page.png")


def test_f61_progress_moves_in_a_browser_and_polling_ends_with_the_jobs(fleet, visitor):
    news: list[float] = []
    visitor.on("websocket", lambda s: s.on("framereceived", lambda _: news.append(time.monotonic())))
    visitor.reload()
    expect(visitor.get_by_role("heading", name="Last 24 hours")).to_be_visible()
    workers = [fleet.mock_worker("8", "0.7") for _ in range(2)]
    send(visitor, DOCUMENTS / "groff.pdf", DOCUMENTS / "cairo.pdf")
    bar = visitor.locator('.bf-job[data-state="processing"] [role=progressbar]').first
    seen = set()
    until = time.monotonic() + 60
    while visitor.locator('.bf-job[data-state="completed"]').count() < 2:
        assert time.monotonic() < until
        if bar.count():
            try:
                seen.add(bar.get_attribute("aria-valuenow", timeout=500))
            except TimeoutError:  # it was completed between the two lines
                continue
        time.sleep(0.2)
    assert len(seen) >= 3, f"progress was seen at {seen} only"
    for worker in workers:
        worker.kill()
    visitor.wait_for_timeout(3000)
    before = polls(fleet)
    assert before > 3
    assert news
    news.clear()
    visitor.wait_for_timeout(6000)
    assert polls(fleet) == before, "Redis is asked although all jobs have ended"
    assert news == [], "the page is sent news although all jobs have ended"


def test_f61_the_history_follows_the_states_of_ones_own_jobs(fleet, visitor):
    cells = visitor.locator("td[role=gridcell]")
    fleet.mock_worker("30", "0.5")
    send(visitor, DOCUMENTS / "groff.pdf", DOCUMENTS / "cairo.pdf")
    for state in ("Running (yours)", "Queued (yours)"):
        expect(cells.filter(has_text=state)).to_have_count(1)
    fleet.mock_worker("30", "0.5")
    expect(visitor.locator('.bf-job[data-state="processing"]')).to_have_count(2)
    expect(cells.filter(has_text="Running (yours)")).to_have_count(2)


def test_f61_a_reload_and_a_history_row_show_the_same_job(fleet, visitor):
    fleet.worker()
    send(visitor, DOCUMENTS / "groff.pdf", DOCUMENTS / "cairo.pdf")
    expect(visitor.locator('.bf-job[data-state="completed"]')).to_have_count(2)
    visitor.reload()
    expect(visitor.locator(".bf-job")).to_have_count(2)
    expect(visitor.locator(".bf-job").first).to_contain_text("groff.pdf")
    box = visitor.get_by_test_id("stDataFrame").bounding_box()
    visitor.mouse.click(box["x"] + 14, box["y"] + 35 + 17)  # the box before the first row
    expect(visitor.locator(".bf-job")).to_have_count(3)


def test_f61_a_visitor_who_clicks_while_documents_are_sent_loses_none(fleet, visitor, tmp_path):
    files = [tmp_path / f"{i:02}.pdf" for i in range(40)]
    for file in files:
        file.write_bytes(b"%PDF-1.4")
    visitor.locator("input[type=file]").set_input_files(files)
    with stutter(fleet.emulator):
        visitor.get_by_role("button", name="Start processing 40 documents").click()
        expect(visitor.get_by_text(re.compile(r"Sending \d+ of 40"))).to_be_visible()
        # Not click, which first waits until the page stands still.
        visitor.get_by_role("button", name="Refresh").dispatch_event("click")
        expect(visitor.get_by_text("40 queued", exact=True)).to_be_visible()
    assert [len(fleet.db.keys("job:*")), len(fleet.messages())] == [40, 40]
    expect(visitor.get_by_role("button", name="Start processing", exact=True)).to_be_disabled()


def test_f61_redis_goes_and_comes_back_under_an_open_page(fleet, visitor):
    fleet.mock_worker("60", "0.5")
    send(visitor, DOCUMENTS / "groff.pdf", DOCUMENTS / "cairo.pdf")
    expect(visitor.locator('.bf-job[data-state="processing"]')).to_have_count(1)
    fleet.redis.kill()
    expect(visitor.get_by_text("Redis does not answer")).to_be_visible()
    expect(visitor.locator('.bf-job[data-state="processing"]')).to_have_count(1)
    fleet.redis.start()
    expect(visitor.get_by_text("Redis does not answer")).to_have_count(0)


def test_f61_a_page_opened_while_a_service_is_away_recovers_by_itself(fleet, site, browser):
    fleet.emulator.kill()
    page = browser.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(site.url)
    expect(page.get_by_text("Pub/Sub cannot be used now")).to_be_visible(timeout=WAIT_MS)
    fleet.emulator.start()
    expect(page.get_by_text("Pub/Sub cannot be used now")).to_have_count(0, timeout=WAIT_MS)
    before = fleet.db.info("commandstats").get("cmdstat_ping", {}).get("calls", 0)
    time.sleep(6)
    after = fleet.db.info("commandstats").get("cmdstat_ping", {}).get("calls", 0)
    page.close()
    assert after == before, "the page goes on asking although nothing is wrong"


def test_f61_downloads_are_streamed(fleet, site):
    """100 MB cost the server next to nothing, also several at the same time."""
    content = os.urandom(1 << 20) * 100
    fleet.put_object("results/big/pages.jsonl", content)
    url = f"{site.url}/download/big/pages.jsonl"
    eventually(lambda: requests.get(url, stream=True, timeout=10).status_code == 200, "the first download begins")
    time.sleep(1)
    before = peak = site.memory()
    streams = [requests.get(url, stream=True, timeout=30) for _ in range(3)]
    assert streams[0].headers["Content-Length"] == str(len(content))
    assert streams[0].headers["Content-Disposition"] == 'attachment; filename="big-pages.jsonl"'
    readers = [stream.iter_content(1 << 20) for stream in streams]
    got = 0
    for parts in zip(*readers, strict=True):
        assert parts[0] == content[got : got + len(parts[0])]
        got += len(parts[0])
        peak = max(peak, site.memory())
    assert got == len(content)
    assert peak - before < 40 << 20, f"{(peak - before) >> 20} MB for three downloads"


@pytest.mark.parametrize(
    "path",
    ["none/result.json", "big/secret", "big/..%2f..%2fsecret", "..%2f/result.json", "%2e%2e/result.json",
     "a%00/result.json"],
)  # fmt: skip
def test_f61_only_results_can_be_downloaded(fleet, site, path):
    fleet.put_object("secret", "secret")
    fleet.put_object("results/big/secret", "secret")
    answer = requests.get(f"{site.url}/download/{path}", timeout=10)
    assert "secret" not in answer.text
    assert answer.status_code in (400, 404) or "text/html" in answer.headers["Content-Type"]


def test_f61_a_download_while_the_storage_is_away_says_so(fleet, site):
    fleet.put_object("results/a/result.json", "{}")
    fleet.store.rename(fleet.folder / "away")
    fleet.store.write_text("in the way")
    answer = requests.get(f"{site.url}/download/a/result.json", timeout=10)
    assert (answer.status_code, "try again later" in answer.text) == (503, True)
