import io
import json
import os
import time

import pytest
import requests

from fleet.config import read
from fleet.errors import NotFound, Unavailable
from fleet.gcs import Bucket
from fleet.local import Directory
from fleet.names import TEMP_PREFIX
from fleet.services import open_store
from fleet.storage import CHUNK, read_all

from .conftest import Process, free_port


@pytest.fixture
def gcs(fake_gcs, tmp_path, monkeypatch):
    """A server of Cloud Storage's own protocol, with one bucket."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    args = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-external-url", url]
    process = Process([str(fake_gcs), *args], dict(os.environ), tmp_path / "gcs.log", port)
    requests.post(f"{url}/storage/v1/b", json={"name": "docs"}, timeout=10).raise_for_status()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    yield process
    process.kill()


S3_KEYS = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret-of-tests", "S3_REGION": "eu-central-1"}


@pytest.fixture
def s3(versitygw, tmp_path):
    """A server of S3 with one bucket, and what tells of it."""
    port = free_port()
    for folder in ("root/docs", "meta"):
        (tmp_path / "s3" / folder).mkdir(parents=True)
    args = ["--port", f"127.0.0.1:{port}", "--region", S3_KEYS["S3_REGION"], "--quiet"]
    places = ["posix", "--sidecar", str(tmp_path / "s3" / "meta"), str(tmp_path / "s3" / "root")]
    keys = {"ROOT_ACCESS_KEY": S3_KEYS["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": S3_KEYS["AWS_SECRET_ACCESS_KEY"]}
    process = Process([str(versitygw), *args, *places], {**os.environ, **keys}, tmp_path / "s3.log", port)
    process.settings = {
        **S3_KEYS,
        "STORAGE_TYPE": "S3",
        "S3_BUCKET_NAME": "docs",
        "S3_ENDPOINT": f"http://127.0.0.1:{port}",
    }
    yield process
    process.kill()


def s3_bucket(server: Process, **other: str):
    return open_store(read({"GCP_PROJECT_ID": "p", **server.settings, **other}))


@pytest.fixture(params=["directory", "bucket", "s3"])
def store(request, tmp_path):
    if request.param == "directory":
        return Directory(str(tmp_path / "store"))
    if request.param == "s3":
        return s3_bucket(request.getfixturevalue("s3"))
    request.getfixturevalue("gcs")
    return Bucket("docs")


@pytest.mark.parametrize("length", [0, 1, CHUNK + 1, 9 << 20])
def test_f61_what_is_put_is_read_again(store, length):
    content = os.urandom(length)
    upload = io.BytesIO(content)
    upload.seek(length // 2)  # somebody has looked into it
    store.put("uploads/a/日本 1.pdf", upload)
    size, chunks = store.chunks("uploads/a/日本 1.pdf")
    parts = list(chunks)
    assert b"".join(parts) == content
    assert size == store.size("uploads/a/日本 1.pdf") == length
    assert max(map(len, parts), default=0) <= CHUNK


def test_f61_what_is_absent_is_not_found(store):
    store.check()
    for look in (store.size, store.chunks, lambda name: read_all(store, name, 10)):
        with pytest.raises(NotFound):
            look("results/none/result.json")
    store.delete("uploads/none/x.pdf")
    assert store.first("uploads/none/") is None


def test_f61_what_is_deleted_is_gone(store):
    store.put("uploads/a/x.pdf", io.BytesIO(b"x"))
    assert store.first("uploads/a/") == "uploads/a/x.pdf"
    store.delete("uploads/a/x.pdf")
    assert store.first("uploads/a/") is None


def test_f61_no_more_is_read_than_the_limit(store):
    store.put("results/a/result.json", io.BytesIO(b"x" * 11))
    assert read_all(store, "results/a/result.json", 10) is None
    assert read_all(store, "results/a/result.json", 11) == b"x" * 11


def test_f61_a_bucket_that_does_not_exist_is_told_with_advice(gcs):
    for call in (Bucket("none").check, lambda: Bucket("none").put("a", io.BytesIO(b"x"))):
        with pytest.raises(Unavailable, match="create it"):
            call()


def test_f61_cloud_storage_may_hang_go_and_come_back(gcs):
    store = Bucket("docs")
    store.check()
    gcs.freeze()
    began = time.monotonic()
    with pytest.raises(Unavailable, match="bucket docs"):
        store.check()
    assert time.monotonic() - began < 6
    gcs.thaw()
    store.check()
    gcs.kill()
    with pytest.raises(Unavailable):
        store.check()
    gcs.start()


def test_f47_a_bucket_of_s3_that_cannot_be_used_is_told_with_advice(s3):
    none = s3_bucket(s3, S3_BUCKET_NAME="none")
    wrong = s3_bucket(s3, AWS_SECRET_ACCESS_KEY="another")
    for store, advice in ((none, "create it"), (wrong, "check AWS_ACCESS_KEY_ID")):
        for call in (store.check, lambda store=store: store.put("a", io.BytesIO(b"x"))):
            with pytest.raises(Unavailable, match=advice):
                call()


def test_f47_s3_may_hang_go_and_come_back(s3):
    store = s3_bucket(s3)
    store.check()
    s3.freeze()
    began = time.monotonic()
    with pytest.raises(Unavailable, match="bucket docs"):
        store.check()
    assert time.monotonic() - began < 20
    s3.thaw()
    store.check()
    s3.kill()
    with pytest.raises(Unavailable):
        store.check()
    s3.start()


def test_f61_missing_credentials_are_told(monkeypatch, tmp_path):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(Unavailable, match=r"none\.json"):
        Bucket("docs").check()


def test_f61_no_name_or_link_leaves_the_directory(tmp_path):
    (tmp_path / "secret").write_text("secret")
    store = Directory(str(tmp_path / "store"))
    store.put("results/a/result.json", io.BytesIO(b"{}"))
    (tmp_path / "store" / "results" / "link").symlink_to(tmp_path)
    (tmp_path / "store" / "results" / "a" / "pages.jsonl").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "store" / "results" / "a" / "fifo")
    for name in ("../secret", "results/link/secret", "results/a/fifo", "results/a", "/etc/passwd"):
        with pytest.raises(NotFound):
            store.chunks(name)
    with pytest.raises((NotFound, Unavailable)):
        store.chunks("results/a/pages.jsonl")
    with pytest.raises(NotFound):
        store.put("results/link/x", io.BytesIO(b"x"))


def test_f61_a_put_that_fails_leaves_nothing(tmp_path):
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError("broken")

    store = Directory(str(tmp_path))
    with pytest.raises(Unavailable):
        store.put("uploads/a/x.pdf", Broken())
    assert list((tmp_path / "uploads" / "a").iterdir()) == []


def test_f61_a_directory_that_cannot_be_used_is_told_with_advice(tmp_path):
    (tmp_path / "file").write_text("")
    store = Directory(str(tmp_path / "file"))
    for call in (store.check, lambda: store.put("a/b", io.BytesIO(b"x"))):
        with pytest.raises(Unavailable, match=r"writable for user id"):
            call()


def test_f61_objects_are_not_missing_while_their_directory_is(tmp_path):
    store = Directory(str(tmp_path / "store"))
    store.put("results/a/result.json", io.BytesIO(b"{}"))
    (tmp_path / "store").rename(tmp_path / "away")
    for look in (lambda: store.size("results/a/result.json"), lambda: store.first("results/a/")):
        with pytest.raises(Unavailable):
            look()


def test_f61_unfinished_files_of_the_workers_have_no_name(tmp_path):
    folder = tmp_path / "uploads" / "a"
    folder.mkdir(parents=True)
    (folder / (TEMP_PREFIX + "1")).write_text("")
    assert Directory(str(tmp_path)).first("uploads/a/") is None


def test_f61_workers_read_documents_from_a_bucket(gcs, fleet):
    """The whole way with Cloud Storage: our upload, their result."""
    from dataclasses import replace

    from fleet.services import open_services
    from fleet.submit import submit

    from .conftest import DOCUMENTS, eventually

    fleet.worker(STORAGE_TYPE="GCP", GCS_BUCKET_NAME="docs", STORAGE_EMULATOR_HOST=os.environ["STORAGE_EMULATOR_HOST"])
    s = open_services(replace(fleet.settings, storage_type="GCP", bucket="docs"))
    assert s.problems() == []
    with (DOCUMENTS / "groff.pdf").open("rb") as f:
        job_id = submit(s.store, s.board, s.topic, "groff.pdf", f)
    eventually(lambda: fleet.status(job_id)["status"] == "completed", "the job is complete")
    result = json.loads(read_all(s.store, f"results/{job_id}/result.json", 1 << 20))
    assert result["document"]["input"] == f"uploads/{job_id}/groff.pdf"
    assert s.file_names([job_id]) == {job_id: "groff.pdf"}


def test_f47_workers_read_documents_from_a_bucket_of_s3(s3, fleet):
    """The whole way with S3: our upload, their result."""
    from fleet.services import open_services
    from fleet.submit import submit

    from .conftest import DOCUMENTS, eventually

    fleet.worker(**s3.settings)
    s = open_services(read({**fleet.env, **s3.settings}))
    assert s.problems() == []
    with (DOCUMENTS / "groff.pdf").open("rb") as f:
        job_id = submit(s.store, s.board, s.topic, "groff.pdf", f)
    eventually(lambda: fleet.status(job_id)["status"] == "completed", "the job is complete")
    result = json.loads(read_all(s.store, f"results/{job_id}/result.json", 1 << 20))
    assert result["document"]["input"] == f"uploads/{job_id}/groff.pdf"
    assert s.file_names([job_id]) == {job_id: "groff.pdf"}
