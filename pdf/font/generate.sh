#!/bin/sh
# Makes the embedded tables again from the packages of Debian, for "go generate":
# the same packages and the same version of Go give the same bytes.
set -eu

tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
here=$PWD
cd "$tables"
apt-get download poppler-data python3-fonttools
for package in ./*.deb; do
	dpkg-deb -x "$package" .
done
cd "$here"

go run gen_cmaps.go "$tables/usr/share/poppler/cMap" >"$tables/cmaps.bin"
# The list as Adobe publishes it is a string in a Python file.
sed -n '/^_aglText/,/^# END/p' "$tables/usr/lib/python3/dist-packages/fontTools/agl.py" |
	go run gen_glyphnames.go >"$tables/glyphnames.txt"
mv "$tables/cmaps.bin" "$tables/glyphnames.txt" .
