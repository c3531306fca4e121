"""The queue: Google Pub/Sub or an emulator of it."""

import base64
import json
import threading
from datetime import UTC, datetime
from urllib.parse import quote

import google.auth
import google.auth.exceptions
import requests
from google.auth.transport.requests import AuthorizedSession

from fleet.config import Settings
from fleet.errors import Unavailable, plain

SERVICE = "Pub/Sub"
TIMEOUT = (2, 3)  # seconds to connect, and to answer
SCOPE = "https://www.googleapis.com/auth/pubsub"


class Topic:
    """The topic that the workers' subscription belongs to.

    Over REST, not gRPC: a page publishes a message now and then, and a request
    of its own is tried at once when the service is back, where a gRPC channel
    first waits for its next attempt to connect.
    """

    def __init__(self, settings: Settings) -> None:
        self.name = settings.topic
        self._emulator = settings.emulator
        base = f"http://{settings.emulator}" if settings.emulator else "https://pubsub.googleapis.com"
        self._url = f"{base}/v1/{quote(settings.topic, safe='/')}"
        self._address = settings.emulator or "pubsub.googleapis.com"
        self._lock = threading.Lock()
        self._session: requests.Session | None = None

    def publish(self, job_id: str, pdf_path: str, bucket: str) -> None:
        """Queue a job, in the form of pubsub/SPEC.md. What kind of job it is, is
        left to the workers.

        When this raises Unavailable the message may have arrived nonetheless: an
        answer can get lost.
        """
        message = {
            "job_id": job_id,
            "pdf_path": pdf_path,
            "bucket_name": bucket,
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        data = base64.b64encode(json.dumps(message).encode()).decode()
        answer = self._call("POST", ":publish", {"messages": [{"data": data}]})
        if len(answer.get("messageIds") or []) != 1:
            raise Unavailable(SERVICE, f"{self._address}: the answer names no message")

    def check(self) -> None:
        """Nothing if the topic is there; raises Unavailable with advice."""
        self._call("GET", "", None)

    def _call(self, method: str, verb: str, body: object) -> dict:
        try:
            # allow_redirects: a queue does not move, and a redirect would turn
            # the POST into a GET.
            response = self._open().request(method, self._url + verb, json=body, timeout=TIMEOUT, allow_redirects=False)
        except (requests.RequestException, google.auth.exceptions.GoogleAuthError) as err:
            raise Unavailable(SERVICE, f"{self._address}: {_why(err)}") from err
        if response.status_code == 403 and method == "GET":
            return {}  # the publisher role may publish but not look
        if response.status_code == 404:
            raise Unavailable(
                SERVICE,
                f"{self._address}: there is no topic {self.name}; create it or correct PUBSUB_TOPIC and GCP_PROJECT_ID",
            )
        if response.status_code != 200:
            raise Unavailable(
                SERVICE, f"{self._address}: answer {response.status_code}: {plain(Exception(response.text[:1000]))}"
            )
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise Unavailable(SERVICE, f"{self._address}: the answer is not Pub/Sub's")
        return answer

    def _open(self) -> requests.Session:
        with self._lock:
            if self._session is None:
                if self._emulator:
                    self._session = requests.Session()
                    self._session.trust_env = False  # no proxy lies before an emulator
                else:
                    self._session = AuthorizedSession(google.auth.default(scopes=[SCOPE])[0])
            return self._session


def _why(err: Exception) -> str:
    if isinstance(err, requests.Timeout):
        return "no answer in time"
    if isinstance(err, requests.ConnectionError):
        return "no connection"
    return plain(err)
