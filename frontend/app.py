"""The frontend: `streamlit run app.py` serves page.py and the downloads."""

import streamlit as st

from fleet import download, services

app = st.App("page.py", routes=[download.route(services.shared)])
