#!/usr/bin/env bash
# Gathers the documents that `go -C bench run . pdf` reads:
#
#   bench/corpus/gather.sh [DIR]
#
# DIR is ${XDG_CACHE_HOME:-$HOME/.cache}/batchfleet/corpus unless given. The
# script may be stopped and run again: what is there stays. It needs Debian's
# apt-get, dpkg-deb, qpdf and Go, and installs nothing. See README.md.
set -euo pipefail
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/batchfleet/corpus}
least=500 # documents, fewer are no corpus
mkdir -p "$dir/debian"
dir=$(cd "$dir" && pwd)
cd "$(dirname "$0")"

# What an earlier run was stopped in the middle of, and this one may be.
cleanup() { rm -rf "$dir"/download.*; }
cleanup
trap cleanup EXIT

# unpack PACKAGE: its documents, and nothing else of it, into $dir/debian.
unpack() {
  local tmp status=0
  tmp=$(mktemp -d "$dir/download.XXXXXX")
  (
    cd "$tmp"
    apt-get download -qq "$1" 2>error || { tail -n 1 error; exit 1; }
    mkdir files
    dpkg-deb --fsys-tarfile ./*.deb | tar -x -C files --wildcards '*.pdf' '*.pdf.gz' '*.PDF' 2>/dev/null || true
    find files -type l -delete
    find files -name '*.gz' -exec gunzip -f {} +
    [ -n "$(find files -type f -iname '*.pdf' -print -quit)" ] || { echo "no documents in it"; exit 1; }
    rm -rf "$dir/debian/$1"
    mv files "$dir/debian/$1"
  ) || status=1
  rm -rf "$tmp"
  return $status
}

packages() { sed 's/#.*//' packages.txt | awk 'NF {print $1}'; }

missing=()
while read -r package; do
  [ -d "$dir/debian/$package" ] && continue
  echo "unpack $package"
  unpack "$package" || missing+=("$package")
done < <(packages)
((${#missing[@]} == 0)) || echo "passed over: ${missing[*]} (after apt-get update they may be there)" >&2

./generate.sh "$dir"

# The manifest: path, origin, group, password. A document that several packages
# have is taken once.
declare -A cjk
while read -r package group _; do
  [ "$group" = cjk ] && cjk[$package]=1
done < <(sed 's/#.*//' packages.txt)
{
  (cd "$dir" && find debian -type f -iname '*.pdf' -exec sha256sum {} + | sort -k 2 | awk '!seen[$1]++ {print substr($0, 67)}') |
    while IFS= read -r path; do
      package=${path#debian/}
      package=${package%%/*}
      group=latin
      [ -n "${cjk[$package]:-}" ] && group=cjk
      printf '%s\t%s\t%s\t\n' "$path" "$package" "$group"
    done
  cat "$dir"/made/*.tsv 2>/dev/null || true
} >"$dir/manifest.new"
mv "$dir/manifest.new" "$dir/manifest.tsv"

count=$(wc -l <"$dir/manifest.tsv")
echo "$count documents in $dir"
cut -f 3 "$dir/manifest.tsv" | sort | uniq -c
if ((count < least)); then
  echo "fewer than $least documents: see the packages passed over" >&2
  exit 1
fi
