"""Downloads of result files, straight from the storage to the browser.

Streamlit's own download button holds a file in memory, whole, for as long as the
visitor stays. The pages of a large document are hundreds of megabytes, so they
get a route of their own, which holds one part at a time.
"""

import logging
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fleet.config import ConfigError
from fleet.errors import NotFound, Unavailable
from fleet.names import PAGES, RESULT, result_name, valid_id
from fleet.services import Services

log = logging.getLogger(__name__)

MEDIA_TYPES = {RESULT: "application/json", PAGES: "application/x-ndjson"}


def path(job_id: str, file: str) -> str:
    """The address of a result file, relative to the page."""
    return f"download/{job_id}/{file}"


def route(services: Callable[[], Services]) -> Route:
    """The route that serves the addresses of path."""

    # Not async: the server runs it, and reads the parts, in threads of their own.
    def download(request: Request) -> Response:
        job_id, file = request.path_params["job_id"], request.path_params["file"]
        if not valid_id(job_id) or file not in MEDIA_TYPES:
            return PlainTextResponse("There is no such file.\n", 404)
        try:
            size, chunks = services().store.chunks(result_name(job_id, file))
        except NotFound:
            return PlainTextResponse("This job has no such file, or none any more.\n", 404)
        except (Unavailable, ConfigError) as err:
            log.warning("cannot serve %s of job %s: %s", file, job_id, err)
            return PlainTextResponse("The storage cannot be reached. Please try again later.\n", 503)
        return StreamingResponse(
            chunks,
            media_type=MEDIA_TYPES[file],
            headers={
                "Content-Length": str(size),
                # Or the server compresses, in the one thread that all pages share.
                "Content-Encoding": "identity",
                "Content-Disposition": f'attachment; filename="{job_id}-{file}"',
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
            },
        )

    return Route("/download/{job_id}/{file}", download, methods=["GET"])
