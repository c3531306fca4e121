#!/usr/bin/env bash
# Lints and tests the frontend, in a virtual environment of its own with exactly
# the pinned packages, and lints the example of an orchestrator. Needs Python 3.11 or newer with venv, Go, redis-server,
# redis-sentinel and chromium, and fails where one is missing.
#
#   check.sh [DIR]   DIR keeps the environment for the next time; a temporary
#                    one goes when the script ends
set -euo pipefail
cd "$(dirname "$0")"
export CI=true PYTHONDONTWRITEBYTECODE=1 RUFF_NO_CACHE=true

missing=()
for pair in go:go redis-server:redis-server redis-sentinel:redis-sentinel chromium:chromium python3:python3-venv; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
if ((${#missing[@]})); then
  echo "check.sh: not installed: ${missing[*]}" >&2
  exit 1
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "check.sh: $(python3 --version) is too old, Python 3.11 or newer is needed" >&2
  exit 1
}

if (($#)); then
  venv=$1
else
  venv=$(mktemp -d)
  trap 'rm -rf "$venv"' EXIT
fi
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-test.txt
"$venv/bin/python" -m pip check

"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
ruff=$(realpath "$venv/bin/ruff")
cd ../examples/relay/orchestrator
# It opens URLs that it was given, and shows how short such a program can be.
"$ruff" check --config ../../../frontend/pyproject.toml --ignore ANN,S310 .
"$ruff" format --config ../../../frontend/pyproject.toml --check .
cd - >/dev/null
"$venv/bin/python" -m pytest -p no:cacheprovider tests
