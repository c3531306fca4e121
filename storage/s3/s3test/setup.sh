#!/bin/sh
# Installs the S3 server that the tests run besides the one in memory, Versity's gateway, in
# the version pinned here, into DIR; without DIR into the cache directory where the tests
# look. Does nothing when it is there. Needs go.
set -eu
version=v1.8.0
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/batchfleet/s3test}
if [ "$(cat "$dir/version" 2>/dev/null)" = "$version" ] && [ -x "$dir/versitygw" ]; then
  exit 0
fi
rm -f "$dir/version"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
# Outside of this module, so that it adds nothing to what this module requires.
(cd / && GOBIN="$dir" GOFLAGS= CGO_ENABLED=0 go install -trimpath "github.com/versity/versitygw/cmd/versitygw@$version")
# Last: its presence says that all of the above worked.
echo "$version" >"$dir/version"
