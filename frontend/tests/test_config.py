import pytest

from fleet.config import ConfigError, read
from fleet.redis_url import Address

PROJECT = {"GCP_PROJECT_ID": "p"}


def test_f61_defaults_are_those_of_the_workers():
    s = read(PROJECT)
    assert s.redis == Address((("localhost", 6379),))
    assert (s.storage_type, s.local_path, s.max_input_bytes) == ("LOCAL", "./local_storage", 1 << 30)
    assert (s.emulator, s.topic) == ("", "projects/p/topics/pdf-processing-topic")


def test_f61_an_empty_variable_is_not_set():
    assert read({**PROJECT, "REDIS_PORT": "", "STORAGE_TYPE": "", "REDIS_TLS": ""}) == read(PROJECT)


def test_f61_a_full_topic_needs_no_project():
    assert read({"PUBSUB_TOPIC": "projects/q/topics/t"}).topic == "projects/q/topics/t"


def test_f61_all_mistakes_are_reported_at_once():
    wrong = {
        "REDIS_HOST": "redis://user:secret@host",
        "REDIS_PORT": "70000",
        "REDIS_DB": "one",
        "REDIS_TLS": "perhaps",
        "STORAGE_TYPE": "AZURE",
        "PUBSUB_EMULATOR_HOST": "http://localhost:8085",
        "PUBSUB_TOPIC": "bare",
        "MAX_INPUT_BYTES": "0",
    }
    with pytest.raises(ConfigError) as caught:
        read(wrong)
    text = "\n".join(caught.value.mistakes)
    assert [name for name in wrong if name not in text] == []
    assert "GCP_PROJECT_ID must be set" in text
    assert "secret" not in text, "a password in the wrong variable is shown to every visitor"


@pytest.mark.parametrize("bucket", ["", "gs://b", "a/b"])
def test_f61_cloud_storage_needs_the_bare_name_of_a_bucket(bucket):
    with pytest.raises(ConfigError, match="GCS_BUCKET_NAME"):
        read({**PROJECT, "STORAGE_TYPE": "GCP", "GCS_BUCKET_NAME": bucket})


@pytest.mark.parametrize("host", ["localhost", "localhost:", ":8085x", "a b:1"])
def test_f61_an_emulator_is_host_and_port(host):
    with pytest.raises(ConfigError, match="PUBSUB_EMULATOR_HOST"):
        read({**PROJECT, "PUBSUB_EMULATOR_HOST": host})


def test_f61_the_password_is_not_in_what_a_log_would_show():
    assert "secret" not in repr(read({**PROJECT, "REDIS_PASSWORD": "secret"}))


S3 = {**PROJECT, "STORAGE_TYPE": "S3", "S3_BUCKET_NAME": "b"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("S3_BUCKET_NAME", ""),
        ("S3_BUCKET_NAME", "s3://b"),
        ("S3_ENDPOINT", "http://key:secret@host"),
        ("S3_ENDPOINT", "http://host/b"),
        ("S3_ENDPOINT", "s3://b"),
        ("S3_ENDPOINT", "http://"),
        ("S3_PATH_STYLE", "perhaps"),
        ("AWS_ACCESS_KEY_ID", "only"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ],
)
def test_f47_mistakes_about_s3_are_named(variable, value):
    with pytest.raises(ConfigError, match=variable) as caught:
        read({**S3, variable: value})
    assert "secret" not in str(caught.value).replace("AWS_SECRET", "")


def test_f47_an_address_of_s3_is_a_url_and_secrets_are_not_shown():
    s = read({**S3, "S3_ENDPOINT": "minio:9000", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "hidden"})
    assert (s.s3.endpoint, s.s3.style, s.s3.secret_key) == ("https://minio:9000", "path", "hidden")
    assert "hidden" not in repr(s)
    assert read({**S3, "S3_ENDPOINT": "http://minio:9000/"}).s3.endpoint == "http://minio:9000"
    assert read(S3).s3.style == "auto"
