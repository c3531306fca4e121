import json

import pytest

from fleet.names import MAX_SEGMENT_BYTES, new_id, upload_name, valid_id, valid_name


@pytest.mark.parametrize(
    ("file", "want"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..", "document."),
        ("", "document"),
        ("日本語 レポート.pdf", "日本語 レポート.pdf"),
        ("a\\b.pdf", "document.pdf"),
        ("new\nline.pdf", "document.pdf"),
        ("half \ud800 pair.pdf", "document.pdf"),
        ("x" * 252 + ".pdf", "document.pdf"),
        ("é" * 126 + ".pd", "é" * 126 + ".pd"),  # 255 bytes
        ("x." + "y" * 300, "document"),
        (".batchfleet-put-x.pdf", "document.pdf"),
        ("a.\x00", "document"),
    ],
)
def test_f61_file_names_become_names_of_objects(file, want):
    name = upload_name("id", file)
    assert name == f"uploads/id/{want}"
    assert valid_name(name)


def test_f61_names_are_those_that_submit_chooses(fleet, tmp_path):
    """batchfleet submit decides; this page must agree with it."""
    files = [
        "plain.pdf",
        "日本語.pdf",
        "a\\b.pdf",
        "tab\there.pdf",
        ".batchfleet-put-1.pdf",
        "noextension",
        "x" * 251 + ".pdf",
    ]
    for file in files:
        path = tmp_path / file
        path.write_bytes(b"%PDF-1.4")
        done = fleet.submit("--json", path)
        assert done.returncode == 0, done.stderr
        job_id = json.loads(done.stdout)["jobId"]
        assert (fleet.store / upload_name(job_id, file)).is_file(), file


@pytest.mark.parametrize("bad", ["", "-a", "a..b", "a/b", "a b", "é", "a\n", "x" * 129])
def test_f61_what_is_no_job_id_is_refused(bad):
    assert not valid_id(bad)


def test_f61_new_ids_are_valid_and_differ():
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(map(valid_id, ids))


@pytest.mark.parametrize(
    "bad",
    ["", "/a", "a//b", "a/", "a/../b", ".", "a\\b", "a\x7fb", "x" * (MAX_SEGMENT_BYTES + 1), "a/" * 512 + "b",
     ".well-known/acme-challenge/x", "a/.batchfleet-put-x"],
)  # fmt: skip
def test_f61_names_that_no_store_can_keep_are_refused(bad):
    assert not valid_name(bad)
