"""The page: upload documents, watch their jobs, fetch what came out."""

from pathlib import Path

import streamlit as st

from fleet import view
from fleet.config import ConfigError
from fleet.services import shared

st.set_page_config(page_title="batchfleet", page_icon=Path(view.__file__).with_name("icon.svg"), layout="centered")

view.heading()
try:
    services = shared()
except ConfigError as err:
    view.misconfigured(err)
    st.stop()

session = view.current_session(services)
# Each part has a place of its own: what comes and goes in one must not move the
# others while a run is under way.
health, form, own, everybodys = (st.container() for _ in range(4))
with health:
    problems = view.trouble(services)
with form:
    view.upload(services, session, problems)
with own:
    view.jobs(services, session)
with everybodys:
    view.history(services, session)
