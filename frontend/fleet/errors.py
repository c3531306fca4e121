"""The two ways in which a service lets us down."""


class Unavailable(Exception):
    """A service cannot be used now; the same call may work later.

    service is what people call it, cause what it said or did not say.
    """

    def __init__(self, service: str, cause: str) -> None:
        super().__init__(f"{service}: {cause}")
        self.service = service
        self.cause = cause


class NotFound(Exception):
    """There is no such object in the storage."""


def plain(error: BaseException) -> str:
    """What an error says, in one line of at most 300 characters.

    Clients wrap each other's errors with the addresses of objects in memory and
    whole answers of servers, which help nobody who reads them on a page.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
