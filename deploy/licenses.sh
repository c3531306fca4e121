#!/bin/sh
# Copies the licenses of everything that is in the program, which want to come with it:
# our own, those of the tables of pdf/font, Go's and those of all linked modules.
#
#   deploy/licenses.sh OS DIRECTORY
set -eu
os=$1 to=$2
mkdir -p "$to"
cp LICENSE pdf/font/LICENSE-* "$to/"
cp "$(go env GOROOT)/LICENSE" "$to/LICENSE-go"
modules=$(GOOS=$os go list -deps -tags disable_grpc_modules,grpcnotrace -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./cmd/batchfleet | sort -u)
echo "$modules" | while read -r module dir; do
  mkdir -p "$to/$module"
  find "$dir" -maxdepth 1 -type f \( -iname '*LICEN[CS]E*' -o -iname 'COPYING*' -o -iname 'NOTICE*' \) -exec cp {} "$to/$module/" \;
  if [ -z "$(ls -A "$to/$module")" ]; then echo "deploy/licenses.sh: module $module has no license" >&2; exit 1; fi
done
chmod -R u+w "$to" # in the module cache they are read-only
