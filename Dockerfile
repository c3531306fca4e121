# The image of batchfleet: one static binary, certificates, and nothing else. No
# shell and no package manager is in it. It runs as a numeric user of its own,
# also with a read-only root and as any other user.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t batchfleet .

# The toolchain runs on the machine that builds; Go makes the binary for the
# machine that the image is for.
FROM --platform=$BUILDPLATFORM golang:1.26-trixie AS build
WORKDIR /src
# Where modules come from, for builds behind a mirror. Go's own defaults.
ARG GOPROXY=https://proxy.golang.org,direct
ARG GOSUMDB=sum.golang.org
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
# The version comes from outside: .git is not here.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOFLAGS=-buildvcs=false GOOS=$TARGETOS GOARCH=$TARGETARCH \
    make build VERSION="$VERSION" BATCHFLEET=/rootfs/batchfleet
RUN --mount=type=cache,target=/go/pkg/mod deploy/licenses.sh "$TARGETOS" /rootfs/licenses
# What a process expects to find besides itself: certificates of Google's
# services, a name for the user, and places to write to. All users may write
# there, because compose and clusters choose their own; new volumes at /data and
# /work start with this owner and mode.
RUN mkdir -p /rootfs/etc/ssl/certs /rootfs/data /rootfs/tmp /rootfs/work \
 && cp /etc/ssl/certs/ca-certificates.crt /rootfs/etc/ssl/certs/ \
 && echo 'batchfleet:x:65532:65532::/tmp:/batchfleet' > /rootfs/etc/passwd \
 && echo 'batchfleet:x:65532:' > /rootfs/etc/group \
 && chmod 1777 /rootfs/data /rootfs/tmp /rootfs/work \
 && chown 65532:65532 /rootfs/data /rootfs/work

FROM scratch
COPY --from=build /rootfs/ /
USER 65532:65532
# /data: LOCAL_STORAGE_PATH of a worker. In it a directory for --data-dir of an emulator, which
# takes none that others may write to.
# /work: copies of inputs while a job runs, up to MAX_INPUT_BYTES for each slot.
WORKDIR /data
ENV LOCAL_STORAGE_PATH=/data \
    WORK_DIR=/work \
    HTTP_ADDR=:8080 \
    EMULATOR_ADDR=:8085
EXPOSE 8080 8085
# Whichever of worker and emulator runs here is asked. A check costs one start of
# the binary, so it is not asked more often than anyone needs to know; at the
# start, when others wait for it, every second. A container that runs a command
# such as submit serves nothing to ask: start that with --no-healthcheck.
HEALTHCHECK --interval=120s --timeout=5s --start-period=30s --start-interval=1s --retries=3 \
    CMD ["/batchfleet", "healthcheck"]
ENTRYPOINT ["/batchfleet"]
CMD ["worker"]
