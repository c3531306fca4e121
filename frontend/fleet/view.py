"""The parts of the page, from top to bottom.

Streamlit runs the page again whenever the visitor does something, and a fragment
alone when its timer says so. Timers run only while there is something to wait
for: a page with nothing to show costs nothing.
"""

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from fleet import cards, check
from fleet.config import ConfigError
from fleet.errors import Unavailable
from fleet.history import Listing, table
from fleet.names import valid_id
from fleet.services import Services
from fleet.session import MAX_IN_ADDRESS, Session
from fleet.submit import NotSubmitted, submit
from fleet.watch import Watched, load_results, refresh

POLL_SECONDS = 2
RETRY_SECONDS = 5
CARDS_A_PAGE = 20
MAX_FILES = 200  # sent by one press of the button
REMARKS_SHOWN = 5

WITHOUT = {
    "Redis": "New documents cannot be sent and progress cannot be shown.",
    "Pub/Sub": "New documents cannot be sent. Jobs that are under way go on.",
    "Storage": "New documents cannot be sent and results cannot be fetched.",
}


def heading() -> None:
    """Title, and what the page is for."""
    st.html(Path(__file__).with_name("style.css"))
    st.title("batchfleet", anchor=False)
    st.write("Upload PDF documents. Workers read every page; you fetch the text and the facts as JSON.")


def misconfigured(err: ConfigError) -> None:
    """What is wrong with the settings, instead of the page."""
    text = "Whoever runs it has to correct these settings and start it again:"
    st.html(cards.notice("This page is not set up correctly.", text, "\n".join(err.mistakes)))


def current_session(services: Services) -> Session:
    """The visitor's session. A new one takes the jobs that the address names."""
    if "session" not in st.session_state:
        session = Session()
        ids = [id for id in st.query_params.get_all("job")[:MAX_IN_ADDRESS] if valid_id(id)]
        names = services.file_names(ids)
        for id in ids:
            session.watch(id, names.get(id, ""))
        st.session_state.session = session
    session = st.session_state.session
    session.withdraw_stranded(services.board)
    if st.query_params.get_all("job") != session.address():
        st.query_params["job"] = session.address()
    return session


def trouble(services: Services) -> list[Unavailable]:
    """Tell what cannot be used, and go on asking until it can."""
    problems = services.problems()
    if problems:
        st.fragment(_trouble, run_every=RETRY_SECONDS)(services)
    return problems


def _trouble(services: Services) -> None:
    problems = services.problems()
    if not problems:
        st.rerun()
    for problem in problems:
        st.html(cards.notice(f"{problem.service} cannot be used now.", WITHOUT[problem.service], problem.cause))
    st.caption(f"This page tries again every {RETRY_SECONDS} seconds.")


def upload(services: Services, session: Session, problems: list[Unavailable]) -> None:
    """The field for documents and the button that makes jobs of them."""
    megabytes = int(st.get_option("server.maxUploadSize"))
    limit = min(services.settings.max_input_bytes, megabytes << 20)
    files = st.file_uploader(
        "PDF documents",
        accept_multiple_files=True,
        max_upload_size=max(1, -(-limit >> 20)),
        key=f"upload-{session.upload}",
        disabled=session.sending,
    )
    unsent = [f for f in files if f.file_id not in session.sent]
    refused = {f.file_id: why for f in unsent if (why := check.refusal(f.size, limit))}
    ready = [f for f in unsent if f.file_id not in refused]
    doubts = [(f.name, why) for f in ready if (why := check.warning(f, f.size))]
    _remarks(session, [(f.name, refused[f.file_id]) for f in unsent if f.file_id in refused], doubts, len(ready))
    label = f"Start processing {cards.count(len(ready), 'document')}" if ready else "Start processing"
    st.button(
        label,
        type="primary",
        icon=":material/play_arrow:",
        disabled=not ready or session.sending or bool(problems),
        on_click=session.start,
        key="start",
    )
    if session.sending:
        _send(services, session, ready[:MAX_FILES], {f.file_id for f in files} - refused.keys())
    elif session.failure:
        _failure(session.failure, len(files) - len(unsent), len(ready))


def _remarks(session: Session, refused: list[tuple[str, str]], doubts: list[tuple[str, str]], ready: int) -> None:
    """What there is to say of the files before they are sent."""
    if session.sending:
        return
    for remarks, show in ((refused, st.error), (doubts, st.warning)):
        lines = [f"{_quoted(name)} {why}." for name, why in remarks[:REMARKS_SHOWN]]
        if len(remarks) > REMARKS_SHOWN:
            lines.append(f"{len(remarks) - REMARKS_SHOWN} more like these.")
        if lines:
            show("\n\n".join(lines))
    if ready > MAX_FILES:
        st.info(f"The first {MAX_FILES} of these documents will be sent; press Start again for the others.")


def _send(services: Services, session: Session, files: list, selected: set[str]) -> None:
    """Make a job of each file.

    The visitor may do something meanwhile. Streamlit then begins another run at
    once and abandons this one at its next call to it. So there is none between
    storing a file and noting its job, the next run waits until that is done, and
    goes on where this one stopped.
    """
    failure = None
    bar = st.progress(0.0)
    for done, file in enumerate(files):
        bar.progress(done / len(files), f"Sending {done + 1} of {len(files)}. Please keep this page open.")
        try:
            with session.one_at_a_time:
                if file.file_id not in session.sent:
                    job_id = submit(services.store, services.board, services.topic, file.name, file)
                    session.sent.add(file.file_id)
                    session.watch(job_id, file.name)
                    services.remember(job_id, file.name)
        except NotSubmitted as err:
            failure = err
            break
    session.finish(selected, failure)
    st.rerun()


def _failure(failure: NotSubmitted, sent: int, left: int) -> None:
    lines = []
    if sent:
        lines.append(f"{cards.count(sent, 'document')} of this selection {'was' if sent == 1 else 'were'} sent before.")
    lines.append(f"{cards.count(left, 'document')} {'is' if left == 1 else 'are'} not sent and still selected:")
    lines.append("press Start again when it works.")
    if failure.stranded:
        lines.append("One of them may be listed as queued; it will be withdrawn when Redis is back.")
    headline = f"Sending has stopped: {failure.cause.service} did not take a document."
    st.html(cards.notice(headline, " ".join(lines), failure.cause.cause))


def jobs(services: Services, session: Session) -> None:
    """The visitor's own jobs, with news every two seconds while there may be some."""
    session.listed = None
    if not session.jobs:
        return
    _polled(_jobs, services, session, session.jobs)


def _headline(text: str) -> DeltaGenerator:
    """A headline, with room for a button at its right."""
    line = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    line.subheader(text, anchor=False, width="content")
    return line


def _polled(part: Callable[..., None], services: Services, session: Session, watched: list[Watched]) -> None:
    """Show a part of the page as a fragment, with a timer only if needed."""
    every = POLL_SECONDS if any(job.live for job in watched) else None
    st.fragment(part, run_every=every)(services, session, every is not None)


def _jobs(services: Services, session: Session, polling: bool) -> None:
    redis_away = _news(services, session, session.jobs)
    with _headline("Your documents"):
        if not all(job.live for job in session.jobs) and st.button("Clear finished", type="tertiary", key="clear"):
            session.forget_ended()
            st.rerun()
    st.caption(cards.summary(session.jobs))
    if redis_away:
        _stale(redis_away)
    listed = st.container()
    pages = -(-len(session.jobs) // CARDS_A_PAGE)
    page = st.pagination(pages, key=f"jobs-{pages}") if pages > 1 else 1
    shown = session.jobs[(page - 1) * CARDS_A_PAGE : page * CARDS_A_PAGE]
    _show(services, listed, shown)
    if session.listed not in (None, session.states()):
        st.rerun()  # the whole page, so that the history below says the same
    _settle(polling, session.jobs)


def _news(services: Services, session: Session, watched: list[Watched]) -> Unavailable | None:
    try:
        refresh(services.board, watched)
    except Unavailable as err:
        return err
    session.withdraw_stranded(services.board)
    return None


def _stale(err: Unavailable) -> None:
    text = "This is what was last known. The jobs go on, and this page goes on asking."
    st.html(cards.notice("Redis does not answer.", text, err.cause, mild=True))


def _show(services: Services, where: DeltaGenerator, shown: list[Watched]) -> None:
    away = load_results(services.store, shown)
    with where:
        if away:
            text = "Results cannot be fetched now."
            st.html(cards.notice("The storage does not answer.", text, away.cause, mild=True))
            st.button("Try again", key=f"again-{shown[0].job_id}")
        for job in shown:
            st.html(cards.card(job))


def _settle(polling: bool, watched: list[Watched]) -> None:
    if polling and not any(job.live for job in watched):
        st.rerun()  # the whole page, without the timer


def history(services: Services, session: Session) -> None:
    """Everybody's jobs of the last 24 hours, as they are now."""
    with _headline("Last 24 hours"):
        st.button("Refresh", icon=":material/refresh:", type="tertiary", key="refresh")
    session.listed = session.states()
    try:
        listing = table(services, {job.job_id for job in session.jobs})
    except Unavailable:
        st.caption("The history cannot be shown while Redis does not answer.")
        return
    if not listing.ids:
        st.caption("No jobs yet. Whatever is sent from here or elsewhere appears in this list.")
        return
    if not listing.complete:
        st.caption(f"There are more jobs than the {len(listing.ids)} shown.")
    _listing(session, listing)
    if session.opened:
        _polled(_opened, services, session, [session.opened])


def _listing(session: Session, listing: Listing) -> None:
    # A selection is the number of a row. The key changes with the rows, so that
    # it never means another job than the one that was clicked.
    key = f"history-{hash(tuple(listing.ids))}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        session.opened = None
        if rows and rows[0] < len(listing.ids):
            row = rows[0]
            session.opened = Watched(listing.ids[row], listing.files[row])

    st.dataframe(
        listing.rows,
        key=key,
        hide_index=True,
        on_select=choose,
        selection_mode="single-row",
        placeholder="",
        column_config={
            "Changed": st.column_config.DatetimeColumn(format="distance"),
            "Progress": st.column_config.ProgressColumn(format="%d %%", min_value=0, max_value=100),
        },
    )
    st.caption("Select a row to see the job and to download its result.")


def _opened(services: Services, session: Session, polling: bool) -> None:
    if session.opened is None:
        return
    if away := _news(services, session, [session.opened]):
        _stale(away)
    _show(services, st.container(), [session.opened])
    _settle(polling, [session.opened])


def _quoted(name: str) -> str:
    """A file's name as Markdown that shows it as it is, shortened."""
    name = " ".join(name.replace("`", "'").split())
    if len(name) > 60:
        name = name[:40] + "…" + name[-19:]
    return f"`{name}`" if name else "A file without a name"
