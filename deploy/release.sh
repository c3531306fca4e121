#!/usr/bin/env bash
# Makes what a release consists of, in dist/: an archive for each platform, the list of
# the Go modules in the program (CycloneDX), and checksums. Where a docker engine runs,
# also the image. The same commit gives the same bytes on every machine with this Go.
#
#   make release                  # of a commit that has a tag, in a clean work tree
#   make release VERSION=v0.1.0   # of whatever is here, under that version
#
# OUT and PLATFORMS choose another directory and other platforms; SBOM=no and IMAGE=no leave out
# the list of modules and the image.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
out=$(realpath -m "${OUT:-dist}")
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
CYCLONEDX=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
fail() { printf 'deploy/release.sh: %s\n' "$*" >&2; exit 1; }

if [ -z "${VERSION:-}" ]; then
  [ -z "$(git status --porcelain)" ] || fail "the work tree has changes: commit them, or give VERSION"
  VERSION=$(git describe --tags --exact-match 2>/dev/null) || fail "this commit has no tag: make one, or give VERSION"
fi
[[ $VERSION =~ ^[A-Za-z0-9][A-Za-z0-9.+-]*$ ]] || fail "VERSION is $VERSION: want letters, digits and .+- only"
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
rm -f "$out"/batchfleet_* "$out/checksums.txt"

build() { # OS ARCH FILE
  GOFLAGS=-buildvcs=false GOOS=$1 GOARCH=$2 GOAMD64=v1 GOARM64=v8.0 make --silent build "VERSION=$VERSION" "BATCHFLEET=$3"
}

# Completions are written by the program itself, so one must run here.
host=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
build "${host%/*}" "${host#*/}" "$work/batchfleet"
mkdir "$work/completions"
for shell in bash zsh fish; do
  "$work/batchfleet" completion "$shell" >"$work/completions/batchfleet.$shell"
done

for platform in $platforms; do
  os=${platform%/*} arch=${platform#*/}
  name=batchfleet_${VERSION}_${os}_$arch
  mkdir -p "$work/$name"
  if [ "$platform" = "$host" ]; then cp "$work/batchfleet" "$work/$name/"; else build "$os" "$arch" "$work/$name/batchfleet"; fi
  cp LICENSE README.md CHANGELOG.md "$work/$name/"
  cp -r "$work/completions" "$work/$name/"
  GOFLAGS='' deploy/licenses.sh "$os" "$work/$name/licenses"
  chmod -R u=rwX,go=rX "$work/$name"
  # Times, owners and order are those of the commit, not of this machine.
  tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu -C "$work" -c "$name" | gzip -9n >"$out/$name.tar.gz"
  if [ "${SBOM:-yes}" != no ]; then
    GOFLAGS='' go run "$CYCLONEDX" bin -json -std -noserial -notimestamp -version "$VERSION" -output "$out/$name.cdx.json" "$work/$name/batchfleet"
  fi
done
(cd "$out" && sha256sum batchfleet_* >checksums.txt)
ls -l "$out"

if [ "${IMAGE:-yes}" = no ]; then exit; fi
if docker info >/dev/null 2>&1; then
  make image "VERSION=$VERSION"
  docker tag batchfleet "batchfleet:$VERSION"
else
  echo "NOT BUILT: the image, because no docker engine answers here"
fi
