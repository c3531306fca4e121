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
problems = view.trouble(services)
view.upload(services, session, problems)
view.jobs(services, session)
view.history(services, session)
