"""Addresses of Redis, as REDIS_URL gives them.

redisdb/url.go reads the same, and says which forms there are; both are tested with
redisdb/testdata/redis_urls.json.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

MAX_DB = 1 << 20

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
_DATABASE = re.compile(r"(?:([0-9]{1,7})/?)?")
_PRIMARY = re.compile(r"([A-Za-z0-9._-]+)(?:/([0-9]{1,7})?)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Address:
    """One server, the primary that Sentinels name, or a cluster."""

    hosts: tuple[tuple[str, int], ...]  # the server, the Sentinels, or nodes of the cluster
    kind: str = ""  # "", "sentinel" or "cluster"
    primary: str = ""  # by which name the Sentinels know it
    db: int = 0
    tls: bool = False
    username: str = ""
    password: str = field(default="", repr=False)
    sentinel_username: str = ""
    sentinel_password: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Which Redis it is, for people: without credentials."""
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return {"sentinel": f"{self.primary} of Sentinels {hosts}", "cluster": f"cluster {hosts}"}.get(self.kind, hosts)


def parse(text: str) -> Address:
    """The address; raises ValueError, which does not quote it: it may hold a
    password."""
    scheme, found, rest = text.partition("://")
    known = re.fullmatch(r"redis(s?)(?:\+(sentinel|cluster))?", scheme)
    if not found or not known:
        raise ValueError(
            "it is no address of Redis: want redis://HOST:PORT/DB, redis+sentinel://HOST:PORT,HOST:PORT/PRIMARY/DB"
            " or redis+cluster://HOST:PORT,HOST:PORT"
        )
    kind = known[2] or ""
    rest, asked, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, _, hosts = authority.rpartition("@")
    username, _, password = login.partition(":")
    username, password = _unescape(username), _unescape(password)
    sentinel = _parameters(query, kind == "sentinel") if asked else {}
    servers = _servers(hosts, kind)
    primary, db = _path(path, kind)
    return Address(servers, kind, primary, db, known[1] == "s", username, password, **sentinel)


def _servers(text: str, kind: str) -> tuple[tuple[str, int], ...]:
    hosts = text.split(",")
    if not kind and len(hosts) > 1:
        raise ValueError("it names several servers: say with redis+sentinel:// or redis+cluster:// what they are")
    found = []
    for one in hosts:
        match = _HOST.fullmatch(one)
        if not match:
            raise ValueError("a host in it is no HOST:PORT; percent-encode what is special in a password")
        port = int(match[3]) if match[3] else 26379 if kind == "sentinel" else 6379
        if not 1 <= port <= 65535:
            raise ValueError("a port in it is not from 1 to 65535")
        found.append((match[1] or match[2], port))
    return tuple(found)


def _path(path: str, kind: str) -> tuple[str, int]:
    primary, database = "", None
    if kind == "cluster":
        if path:
            raise ValueError("a cluster has one database: end the address after the last port")
    elif kind == "sentinel":
        match = _PRIMARY.fullmatch(path)
        if not match:
            raise ValueError(
                "the name of the primary is missing, or what follows it is no number of a database:"
                " want redis+sentinel://HOST:PORT,HOST:PORT/PRIMARY/DB"
            )
        primary, database = match[1], match[2]
    else:
        match = _DATABASE.fullmatch(path)
        if not match:
            raise ValueError("the database is no number: want redis://HOST:PORT/DB")
        database = match[1]
    db = int(database or 0)
    if db > MAX_DB:
        raise ValueError(f"the database is not from 0 to {MAX_DB}")
    return primary, db


def _parameters(query: str, sentinel: bool) -> dict[str, str]:
    found = {}
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        value = _unescape(value)
        if not sentinel or name not in ("sentinel_username", "sentinel_password"):
            raise ValueError(
                "it has a parameter that is not known: only redis+sentinel:// has some,"
                " sentinel_username and sentinel_password"
            )
        found[name] = value
    return found


def _unescape(text: str) -> str:
    try:
        if not _BAD_ESCAPE.search(text):
            return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass
    raise ValueError(
        "a % in it does not begin two hexadecimal digits, or they are no UTF-8: write %25 for a percent sign"
    )
