#!/usr/bin/env bash
# Checks images, compose file and manifests as far as that goes without a
# container engine, a cluster or an account. It installs nothing: it needs Go, git, Debian's
# packages file, openssl, tar, util-linux and coreutils, and deploy/requirements.txt in the Python
# that PYTHON names. Root, or sudo, is needed for the empty root.
#
#   python3 -m venv VENV && VENV/bin/pip install -r deploy/requirements.txt
#   PYTHON=VENV/bin/python deploy/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
HELM=helm.sh/helm/v3/cmd/helm@v3.19.2
sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
work=$(mktemp -d)
emulator=
end() {
  if [ -n "$emulator" ]; then kill "$emulator" && wait "$emulator" || true; fi
  $sudo rm -rf "$work"
}
trap end EXIT
step() { printf '\n-- %s\n' "$*"; }
fail() { printf 'deploy/check.sh: %s\n' "$*" >&2; exit 1; }

step tools
for tool in go file openssl unshare chroot timeout; do
  command -v "$tool" >/dev/null || fail "$tool is missing"
done
"$python" -c 'import yaml, kubernetes_validate, cloudcoil.models.keda, cloudcoil.models.prometheus_operator' ||
  fail "packages of deploy/requirements.txt are missing: set PYTHON to a Python that has them"
hadolint=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')/hadolint
"$hadolint" --version

step "F-60: Dockerfiles"
"$hadolint" Dockerfile frontend/Dockerfile
# The image and releases are built by make build, so that all have the same flags.
for file in Dockerfile deploy/release.sh; do
  grep -qE 'make (--silent )?build' "$file" || fail "$file builds the binary other than by make build"
  if grep -q 'go build' "$file"; then fail "$file builds a binary with flags of its own"; fi
done
grep -qx '!Makefile' .dockerignore || fail ".dockerignore keeps the Makefile out of the build"
go=$(awk '$1 == "go" {split($2, v, "."); print v[1] "." v[2]}' go.mod)
grep -q "golang:$go-" Dockerfile || fail "Dockerfile builds with another Go than $go of go.mod"
# The packages that the binary is made of must be let into the build.
for package in $(go list -deps -f '{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}' ./cmd/batchfleet | cut -d/ -f4 | sort -u); do
  grep -qx "!$package" .dockerignore || fail ".dockerignore keeps package $package out of the build"
done

step "F-60: compose file"
# The parser that docker compose itself uses.
go run github.com/compose-spec/compose-go/v2/cmd@v2.16.2 docker-compose.yml >"$work/compose.yml"
echo "docker-compose.yml: $(grep -c . "$work/compose.yml") lines when resolved"

step "release archive"
# Made twice: the second time from a copy of the tree elsewhere, under other settings.
platform=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
archive=batchfleet_v0.0.0-check_${platform/\//_}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
mkdir "$work/tree"
git ls-files -z --cached --others --exclude-standard --deduplicate | tar -c --null --ignore-failed-read -T - | tar -x -C "$work/tree"
release() { VERSION=v0.0.0-check PLATFORMS=$platform SBOM=no IMAGE=no OUT=$work/$1 deploy/release.sh; }
release first
(cd "$work/tree" && umask 077 && TZ=Asia/Tokyo release second)
cmp "$work/first/$archive.tar.gz" "$work/second/$archive.tar.gz" || fail "two archives of one tree differ"
(cd "$work/first" && sha256sum -c checksums.txt)
tar -xzf "$work/first/$archive.tar.gz" -C "$work"
version=$("$work/$archive/batchfleet" version)
[[ $version = *v0.0.0-check* ]] || fail "the released binary says $version"
for shell in bash zsh fish; do
  [ -s "$work/$archive/completions/batchfleet.$shell" ] || fail "no completion for $shell"
done

step "F-60: binary"
mkdir "$work/root"
cp "$work/$archive/batchfleet" "$work/root/"
file "$work/root/batchfleet"
file "$work/root/batchfleet" | grep -q 'statically linked' || fail "the binary is not static"

step "F-20: manifests"
"$python" deploy/manifests.py "$work/root/batchfleet"

step "D-36: chart"
GOBIN=$work/bin go install -trimpath -ldflags '-s -w' "$HELM"
"$python" deploy/chart.py "$work/bin/helm" "$work/root/batchfleet"

step "F-60: empty root"
# As in the image: the binary, certificates, and directories to write to. The
# root is read-only, the user has a number and no name.
root=$work/root
mkdir -p "$root"/{etc/ssl/certs,data,tmp,work,proc,dev}
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp pdf/testdata/groff.pdf "$root/"
touch "$root/dev/null"
chmod 755 "$work" "$root"
cat >"$work/enter" <<'ENTER'
set -e
mount --bind "$1" "$1"
for dir in data tmp work; do mount -t tmpfs -o mode=1777,size=64m none "$1/$dir"; done
mount -t proc none "$1/proc"
mount --bind /dev/null "$1/dev/null"
mount -o remount,bind,ro "$1"
root=$1; shift
exec chroot --userspec=65532:65532 --groups= "$root" "$@"
ENTER
prepare() { # VAR=VALUE… -- ARGUMENT… into the array cmd
  local vars=()
  while [ "$1" != -- ]; do vars+=("$1"); shift; done
  shift
  cmd=(timeout 120 $sudo env -i PATH="$PATH" "${vars[@]}" unshare --mount --pid --fork --kill-child bash "$work/enter" "$root" /batchfleet "$@")
}
in_root() { prepare "$@"; "${cmd[@]}"; }
in_root -- version
in_root LOCAL_STORAGE_PATH=/data WORK_DIR=/work -- dev /groff.pdf
# Nothing can be written but where it should be, and the binary says so.
if out=$(in_root LOCAL_STORAGE_PATH=/elsewhere -- dev /groff.pdf 2>&1); then fail "a read-only root was written to: $out"; fi
grep -q 'LOCAL_STORAGE_PATH /elsewhere: .*read-only file system' <<<"$out" || fail "unclear about a read-only root: $out"
# A service, and what asks for its health.
prepare -- emulator --addr 127.0.0.1:0 --data-dir /data/queue --topic jobs --subscription jobs
"${cmd[@]}" >"$work/said" 2>&1 &
emulator=$!
addr=
for _ in $(seq 100); do
  addr=$(sed -n 's/^emulator listens on //p' "$work/said")
  [ -z "$addr" ] || break
  sleep 0.1
done
[ -n "$addr" ] || fail "the emulator did not start: $(cat "$work/said")"
in_root -- healthcheck "$addr"
in_root EMULATOR_ADDR="$addr" HTTP_ADDR=127.0.0.1:1 -- healthcheck
if in_root -- healthcheck 127.0.0.1:1 2>/dev/null; then fail "nobody is healthy"; fi
step passed
