#!/bin/sh
# Installs Google's Python and Node clients of Pub/Sub, and Celery, in the versions pinned
# beside this script, into DIR for the tests of this package; without DIR into
# the cache directory where the tests look. Does nothing when they are there.
# Needs python3 with venv, and npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/batchfleet/clienttest}
pins() { cat "$here/requirements.txt" "$here/package-lock.json"; }

if [ -f "$dir/pins" ] && pins | cmp -s - "$dir/pins"; then
  exit 0
fi
rm -rf "$dir/pins" "$dir/venv" "$dir/node_modules"
mkdir -p "$dir"
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --no-deps --disable-pip-version-check -r "$here/requirements.txt"
"$dir/venv/bin/pip" check --disable-pip-version-check
cp "$here/package.json" "$here/package-lock.json" "$dir/"
(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
# Last: its presence says that all of the above worked.
pins >"$dir/pins"
