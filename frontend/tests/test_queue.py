import base64
import json
import re
import time
from dataclasses import replace

import pytest

from fleet.errors import Unavailable
from fleet.queue import Topic


def test_f61_the_message_is_the_contracts(fleet):
    Topic(fleet.settings).publish("id-1", "uploads/id-1/日本.pdf", "local")
    [received] = fleet.messages()
    message = json.loads(base64.b64decode(received["message"]["data"]))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", message.pop("timestamp"))
    assert message == {"job_id": "id-1", "pdf_path": "uploads/id-1/日本.pdf", "bucket_name": "local"}


def test_f61_a_missing_topic_is_told_with_advice(fleet):
    topic = Topic(replace(fleet.settings, topic="projects/local-dev/topics/none"))
    for call in (topic.check, lambda: topic.publish("a", "b", "local")):
        with pytest.raises(Unavailable, match="PUBSUB_TOPIC"):
            call()


def test_f61_a_queue_may_hang_go_and_come_back(fleet):
    topic = Topic(fleet.settings)
    topic.check()
    fleet.emulator.freeze()
    began = time.monotonic()
    with pytest.raises(Unavailable, match="no answer in time"):
        topic.publish("a", "b", "local")
    assert time.monotonic() - began < 5
    fleet.emulator.kill()
    with pytest.raises(Unavailable, match="no connection"):
        topic.check()
    fleet.emulator.start()
    topic.check()


def test_f61_something_else_at_the_queues_port_is_told(fleet):
    with pytest.raises(Unavailable, match="Pub/Sub"):
        Topic(replace(fleet.settings, emulator=f"127.0.0.1:{fleet.redis_port}")).check()


def test_f61_missing_credentials_are_told(fleet, monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(Unavailable, match=r"none\.json"):
        Topic(replace(fleet.settings, emulator="")).check()
