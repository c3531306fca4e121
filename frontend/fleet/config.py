"""Settings, from the same environment variables as the rest of the fleet.

docs/configuration.md of the project is the reference. As there, an empty variable
is one that is not set, and all mistakes are reported at once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from fleet import redis_url

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_FULL_TOPIC = re.compile(r"projects/[^/]+/topics/[^/]+")
_TRUE = {"1", "t", "T", "true", "True", "TRUE"}
_FALSE = {"0", "f", "F", "false", "False", "FALSE"}


class ConfigError(Exception):
    """Settings that cannot work; mistakes has one line for each."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("configuration:\n" + "\n".join(mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True)
class S3:
    """Where a bucket of S3 is, and who asks."""

    bucket: str
    endpoint: str  # a URL; that of AWS when empty
    region: str  # found out when empty
    style: str  # of addresses: auto, path or virtual
    ca_file: str
    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(repr=False)


@dataclass(frozen=True)
class Settings:
    """What the frontend needs to know of the fleet."""

    redis: redis_url.Address
    storage_type: str  # LOCAL, GCP or S3
    local_path: str
    bucket: str  # of Cloud Storage
    emulator: str  # host:port; Google's Pub/Sub when empty
    topic: str  # projects/P/topics/T
    max_input_bytes: int  # what the workers accept
    s3: S3 | None = None  # where the storage type is S3


def read(env: Mapping[str, str]) -> Settings:
    """Settings from env; raises ConfigError with all mistakes."""
    reader = _Reader({name: value for name, value in env.items() if value})
    settings = Settings(
        redis=reader.redis(),
        storage_type=reader.text("STORAGE_TYPE", "LOCAL"),
        local_path=reader.text("LOCAL_STORAGE_PATH", "./local_storage"),
        bucket=reader.text("GCS_BUCKET_NAME"),
        emulator=reader.emulator("PUBSUB_EMULATOR_HOST"),
        topic=reader.topic("PUBSUB_TOPIC", "pdf-processing-topic"),
        max_input_bytes=reader.number("MAX_INPUT_BYTES", 1 << 30, 1, 1 << 40),
    )
    mistakes = reader.mistakes
    if settings.storage_type == "S3":
        settings = replace(settings, s3=reader.s3())
    if settings.storage_type not in ("LOCAL", "GCP", "S3"):
        mistakes.append(f"STORAGE_TYPE is {settings.storage_type!r}: want LOCAL, GCP or S3")
    if settings.storage_type == "GCP" and (not settings.bucket or re.search("[:/ ]", settings.bucket)):
        mistakes.append(f"GCS_BUCKET_NAME is {settings.bucket!r}: STORAGE_TYPE=GCP needs the bare name of a bucket")
    if mistakes:
        raise ConfigError(mistakes)
    return settings


class _Reader:
    """Reads variables and remembers what is wrong with them."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.mistakes: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        return self.env.get(name, default)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        value = self.text(name, str(default))
        if not _NUMBER.fullmatch(value):
            self.mistakes.append(f"{name} is {value!r}: want a whole number")
            return default
        if not low <= int(value) <= high:
            self.mistakes.append(f"{name} is {value}: must be from {low} to {high}")
            return default
        return int(value)

    def flag(self, name: str) -> bool:
        value = self.text(name, "false")
        if value not in _TRUE | _FALSE:
            self.mistakes.append(f"{name} is {value!r}: want true or false")
        return value in _TRUE

    def host(self, name: str, default: str) -> str:
        value = self.text(name, default)
        if re.search("[/@ ]", value):
            # Not quoted: it may be a URL with a password.
            self.mistakes.append(
                f"{name} is not a host name or address alone; give a whole address as REDIS_URL,"
                " port and password have variables of their own"
            )
        return value

    def redis(self) -> redis_url.Address:
        """REDIS_URL, or the variables of one server. The login may be beside the
        URL; what both say must be the same."""
        server = redis_url.Address(
            hosts=((self.host("REDIS_HOST", "localhost"), self.number("REDIS_PORT", 6379, 1, 65535)),),
            db=self.number("REDIS_DB", 0, 0, redis_url.MAX_DB),
            tls=self.flag("REDIS_TLS"),
            username=self.text("REDIS_USERNAME"),
            password=self.text("REDIS_PASSWORD"),
        )
        if "REDIS_URL" not in self.env:
            return server
        try:
            address = redis_url.parse(self.text("REDIS_URL"))
        except ValueError as err:
            self.mistakes.append(f"REDIS_URL: {err}")
            return server
        host, port = ("", 0) if address.kind else address.hosts[0]
        for name, same in {
            "REDIS_HOST": server.hosts[0][0] == host,
            "REDIS_PORT": server.hosts[0][1] == port,
            "REDIS_DB": server.db == address.db,
            "REDIS_TLS": server.tls == address.tls,
            "REDIS_USERNAME": address.username in ("", server.username),
            "REDIS_PASSWORD": address.password in ("", server.password),
        }.items():
            if name in self.env and not same:
                self.mistakes.append(f"{name} contradicts REDIS_URL: leave one of the two out")
        return replace(
            address,
            username=address.username or server.username,
            password=address.password or server.password,
        )

    def s3(self) -> S3:
        bucket, style = self.text("S3_BUCKET_NAME"), self.text("S3_PATH_STYLE", "auto")
        if not bucket or re.search("[:/ ]", bucket):
            self.mistakes.append(f"S3_BUCKET_NAME is {bucket!r}: STORAGE_TYPE=S3 needs the bare name of a bucket")
        if style not in ("auto", "true", "false"):
            self.mistakes.append(f"S3_PATH_STYLE is {style!r}: want auto, true or false")
        if ("AWS_ACCESS_KEY_ID" in self.env) != ("AWS_SECRET_ACCESS_KEY" in self.env):
            self.mistakes.append(
                "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one is set: set both,"
                " or none to have them found in the usual places"
            )
        endpoint = self.s3_endpoint()
        # The library's own auto asks for names of hosts that other stores do not have.
        ways = {"true": "path", "false": "virtual", "auto": "path" if endpoint else "auto"}
        return S3(
            bucket=bucket,
            endpoint=endpoint,
            region=self.text("S3_REGION"),
            style=ways.get(style, "auto"),
            ca_file=self.text("S3_CA_FILE"),
            access_key=self.text("AWS_ACCESS_KEY_ID"),
            secret_key=self.text("AWS_SECRET_ACCESS_KEY"),
            token=self.text("AWS_SESSION_TOKEN"),
        )

    def s3_endpoint(self) -> str:
        """The address of the store as a URL."""
        value = self.text("S3_ENDPOINT")
        if not value:
            return ""
        url = urlsplit(value if "://" in value else f"https://{value}")
        whole = url.hostname and url.scheme in ("http", "https") and url.path in ("", "/")
        if not whole or url.query or url.fragment or url.username is not None:
            # Not quoted: it may be a URL with a password.
            self.mistakes.append("S3_ENDPOINT: give a host, host:port or URL alone, without credentials and path")
        return f"{url.scheme}://{url.netloc}"

    def emulator(self, name: str) -> str:
        value = self.text(name)
        if "://" in value:
            self.mistakes.append(f"{name} is {value!r}: give host:port without a scheme")
        elif value and not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]*):[0-9]{1,5}", value):
            self.mistakes.append(f"{name} is {value!r}: give host:port")
        return value

    def topic(self, name: str, default: str) -> str:
        value, project = self.text(name, default), self.text("GCP_PROJECT_ID")
        if _FULL_TOPIC.fullmatch(value):
            return value
        if "/" in value:
            self.mistakes.append(f"{name} is {value!r}: give a bare name or projects/PROJECT/topics/NAME")
        elif not project:
            self.mistakes.append(f"{name} is the bare name {value!r}, so GCP_PROJECT_ID must be set")
        return f"projects/{project}/topics/{value}"
