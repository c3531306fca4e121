#!/usr/bin/env bash
# Sends a real gateway the requests that schemathesis makes of openapi.json, valid and
# invalid ones, for two minutes at most, and holds the answers against it. What is let
# pass is in schemathesis.toml, with the reason. Needs Go, redis-server, curl and
# python3 with venv.
#
#   check.sh [DIR]   DIR keeps the Python environment for the next time
set -euo pipefail
cd "$(dirname "$0")"
for tool in go redis-server redis-cli curl python3; do
  command -v "$tool" >/dev/null || { echo "check.sh: $tool is missing" >&2; exit 1; }
done
work=$(mktemp -d)
started=()
end() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
  rm -rf "$work"
}
trap end EXIT
venv=$(realpath -m "${1:-$work/venv}")
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt
go build -o "$work/batchfleet" ../../cmd/batchfleet

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
soon() { # COMMAND…: until it succeeds, for half a minute
  for _ in {1..300}; do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
  echo "check.sh: not within 30 s: $*" >&2
  cat "$work"/*.log >&2
  exit 1
}
port=$(free_port)
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" >"$work/redis.log" &
started+=($!)
soon redis-cli -p "$port" ping
python3 -c 'import secrets; print(secrets.token_hex(32))' >"$work/admin.token"
chmod 600 "$work/admin.token"
url=http://127.0.0.1:$(free_port)
env -C "$work" REDIS_HOST=127.0.0.1 REDIS_PORT="$port" ./batchfleet gateway \
  --addr "${url#http://}" --admin-token-file admin.token >"$work/gateway.log" 2>&1 &
started+=($!)
soon curl -sf "$url/readyz"

ask() { curl -sSf -H "Authorization: Bearer $(cat "$work/admin.token")" -H 'Content-Type: application/json' "$@"; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
enroll=$(ask -d '{}' "$url/calc/zpe/compute/enroll-tokens" | field token)
WORKER_TOKEN=$(curl -sSf -H 'Content-Type: application/json' -d '{"name":"check","token":"'"$enroll"'"}' \
  "$url/calc/zpe/compute/servers/register" | field worker_token)
export WORKER_TOKEN
ask -d @../../processor/zpe/testdata/h2.json "$url/calc/zpe/jobs" >/dev/null

# The same requests each time, so that a change is to blame for what it finds. It
# keeps notes where it runs.
here=$PWD
cd "$work"
gzip -dc "$here/openapi.json.gz" >openapi.json
timeout 600 "$venv/bin/schemathesis" --config-file "$here/schemathesis.toml" run openapi.json --url "$url" \
  -H "Authorization: Bearer $(cat "$work/admin.token")" --phases coverage,fuzzing --max-examples 50 --generation-deterministic \
  --request-timeout 60 --warnings off --no-color
