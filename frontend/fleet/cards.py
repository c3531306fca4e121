"""What a job looks like on the page.

As HTML, not as Streamlit's Markdown: names of files and messages come from
outside, and Markdown would make links, images and formulas of them. One element
a job also keeps a list of a hundred cheap to send every two seconds.
"""

import html
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from fleet import download
from fleet.names import PAGES, RESULT
from fleet.results import Result
from fleet.watch import Watched

LABELS = {
    "queued": "Queued",
    "processing": "Running",
    "completed": "Succeeded",
    "failed": "Failed",
    "canceled": "Canceled",
}
UNKNOWN = "Unknown"
SLOW_START_SECONDS = 60  # waiting this long is worth a word


def card(job: Watched, now: datetime | None = None) -> str:
    """The HTML of a job. All that comes from outside is escaped."""
    state = _state(job)
    label = LABELS.get(state, UNKNOWN)
    parts = [
        '<div class="bf-head">',
        f'<span class="bf-name" title="{escape(job.file)}">{escape(title(job))}</span>',
        f'<span class="bf-state bf-{state}">{label}</span>',
        "</div>",
    ]
    if job.status and state in ("queued", "processing"):
        parts.append(_bar(job.status.progress, title(job)))
    parts += [f'<div class="{css}">{escape(line)}</div>' for css, line in _lines(job, now or datetime.now(UTC))]
    if job.result and job.result.present:
        parts.append(_links(job.job_id, job.result))
    parts.append(f'<div class="bf-id">{escape(job.job_id)}</div>')
    return f'<div class="bf-job" data-job="{escape(job.job_id)}" data-state="{state}">{"".join(parts)}</div>'


def escape(text: str) -> str:
    """text as HTML shows it, with what a reader would not see written out.

    These are control characters and invisible formatting characters, as \\x1b or
    \\u202e. Workers write them so already, but not in names of files.
    """
    return html.escape("".join(_visible(c) for c in text))


def _visible(c: str) -> str:
    hidden = c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")
    return c.encode("unicode_escape").decode() if hidden else c


def title(job: Watched) -> str:
    """What to call a job."""
    return job.file or "Document without a known name"


def summary(jobs: Iterable[Watched]) -> str:
    """How many jobs are in which state, in words."""
    counts: dict[str, int] = {}
    for job in jobs:
        label = LABELS.get(_state(job), UNKNOWN)
        counts[label] = counts.get(label, 0) + 1
    order = [*LABELS.values(), UNKNOWN]
    return " · ".join(f"{counts[label]} {label.lower()}" for label in order if label in counts)


def notice(headline: str, text: str, cause: str = "", mild: bool = False) -> str:
    """The HTML of something that has gone wrong: what happened, what it means,
    and what was said about it by the service."""
    parts = [f"<b>{escape(headline)}</b> {escape(text)}"]
    if cause:
        parts.append(f'<div class="bf-cause">{escape(cause)}</div>')
    return f'<div class="bf-notice{" bf-mild" if mild else ""}" role="alert">{"".join(parts)}</div>'


def _state(job: Watched) -> str:
    if job.gone or job.status is None:
        return "unknown"
    return job.status.status


def _bar(percent: int, name: str) -> str:
    return (
        f'<div class="bf-bar" role="progressbar" aria-label="Progress of {escape(name)}" aria-valuemin="0"'
        f' aria-valuemax="100" aria-valuenow="{percent}"><div style="width:{percent}%"></div></div>'
    )


def _lines(job: Watched, now: datetime) -> list[tuple[str, str]]:
    """The lines of text below a job's name, with their styles."""
    plain, error = "bf-text", "bf-text bf-error"
    if job.gone == "unreadable":
        return [(error, "The status of this job in Redis cannot be read: it is not in the form that workers write.")]
    if job.gone == "missing":
        lines = [(plain, "Nothing is known of this job. Its status is kept for 24 hours after the last change.")]
        if job.result:
            lines = [(plain, "The status of this job has expired, but its result is still there.")]
            lines += _facts(job.result)
        return lines
    status = job.status
    if status is None:
        return [(plain, "Nothing is known of it yet.")]
    if status.status == "completed":
        return _facts(job.result) if job.result else [(plain, status.message)]
    if status.status == "failed":
        where = f"Stopped at {status.progress} %. " if status.progress else ""
        return [(error, where + (status.error_msg or status.message or "It does not say why."))]
    if status.status == "canceled":
        return [(plain, "Canceled. No result will come.")]
    if status.silent:
        silence = f"Nothing heard from the worker for {duration(status.silent)}."
        return [(error, f"{silence} Another worker takes the job over, if one is running.")]
    lines = [(plain, f"{status.message} {status.progress} %" if status.status == "processing" else status.message)]
    waited = (now - status.updated_at).total_seconds() if status.updated_at else 0
    if status.status == "queued" and waited > SLOW_START_SECONDS:
        lines.append((plain, "No worker has taken it yet: all may be busy, or none may be running."))
    return lines


def _facts(result: Result) -> list[tuple[str, str]]:
    facts = []
    if result.pages is not None:
        facts.append(count(result.pages, "page"))
    if result.words is not None:
        facts.append(count(result.words, "word"))
    if result.seconds is not None:
        facts.append(f"read in {duration(result.seconds)}")
    lines = [("bf-text", " · ".join(facts))] if facts else []
    if result.damage:
        lines.append(("bf-text bf-error", f"The document is damaged: {result.damage}"))
    if result.failed_pages:
        lines.append(("bf-text bf-error", f"{count(result.failed_pages, 'page')} could not be read."))
    if result.warnings > result.failed_pages:
        lines.append(("bf-text", f"{count(result.warnings, 'page')} with a warning; see {PAGES}."))
    if result.problem:
        lines.append(("bf-text bf-error", result.problem))
    return lines


def _links(job_id: str, result: Result) -> str:
    links = [f'<a class="bf-link" download href="{download.path(job_id, RESULT)}">Download {RESULT}</a>']
    if result.pages_size is not None:
        links.append(
            f'<a class="bf-link" download href="{download.path(job_id, PAGES)}">'
            f"Download {PAGES} ({size(result.pages_size)})</a>"
        )
    return f'<div class="bf-links">{"".join(links)}</div>'


def count(number: int, noun: str) -> str:
    """A number of things in words: 1 page, 12,753 words."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int) -> str:
    """A size in words, in units of 1024 bytes."""
    if number < 1024:
        return count(number, "byte")
    value, units = number / 1024, ["GB", "MB", "kB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1024
        units.pop()
    unit = units[-1]
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def duration(seconds: float) -> str:
    """A time in words: 0.4 s, 45 s, 12 min."""
    if seconds < 0.05:
        return "less than 0.1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
