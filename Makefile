# make help lists what there is.
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONLINT = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.8.0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
# Cloud Storage over gRPC is not used, nor gRPC's own traces: without them the binary is
# nearly half as large, and an idle worker takes less memory.
BATCHFLEET = bin/batchfleet
TAGS = disable_grpc_modules,grpcnotrace
# Packages that take little of a job's time are built without inlining, and the linker aligns
# functions to 8 bytes: the binary is 1.7 MB smaller, and what jobs wait for is as fast as before.
COLD = cloud.google.com/go/auth cloud.google.com/go/iam cloud.google.com/go/monitoring cloud.google.com/go/storage \
	github.com/GoogleCloudPlatform github.com/agnivade github.com/alicebob/miniredis github.com/clipperhouse github.com/felixge \
	github.com/go-logr github.com/google/s2a-go github.com/googleapis github.com/joho github.com/kelseyhightower \
	github.com/lmittmann github.com/mattn github.com/minio/minio-go github.com/munnerz github.com/pelletier \
	github.com/prometheus github.com/spf13 github.com/tinylib github.com/vbauerster github.com/yuin \
	go.opentelemetry.io go.yaml.in golang.org/x/oauth2 google.golang.org/api google.golang.org/genproto gopkg.in \
	google.golang.org/grpc/balancer google.golang.org/grpc/credentials google.golang.org/grpc/encoding \
	google.golang.org/grpc/internal/binarylog google.golang.org/grpc/internal/channelz google.golang.org/grpc/internal/resolver \
	google.golang.org/grpc/resolver google.golang.org/grpc/stats google.golang.org/protobuf/encoding \
	google.golang.org/protobuf/internal/filedesc google.golang.org/protobuf/reflect/protodesc google.golang.org/protobuf/types \
	github.com/batchfleet/batchfleet/cli github.com/batchfleet/batchfleet/emulator/schema github.com/batchfleet/batchfleet/operations \
	encoding/asn1 encoding/gob net/http/pprof runtime/pprof text/template \
	github.com/adhocore/gronx github.com/batchfleet/batchfleet/dashboard \
	github.com/batchfleet/batchfleet/relay github.com/batchfleet/batchfleet/processor/zpe github.com/batchfleet/batchfleet/kinds \
	net/http html/template mime/multipart crypto/tls crypto/x509 encoding/xml golang.org/x/text \
	github.com/klauspost/compress github.com/batchfleet/batchfleet/jobapi github.com/batchfleet/batchfleet/trace/otlp \
	github.com/batchfleet/batchfleet/gateway/provider github.com/batchfleet/batchfleet/pubsub/provider \
	github.com/batchfleet/batchfleet/grid/client github.com/batchfleet/batchfleet/grid/router github.com/batchfleet/batchfleet/storage/gcs github.com/batchfleet/batchfleet/storage/s3 \
	google.golang.org/protobuf/internal/encoding vendor/golang.org/x/text

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  \1\t/' | expand -t 12

.PHONY: build
build: ## build bin/batchfleet, static and stripped
	CGO_ENABLED=0 go build -tags $(TAGS) -trimpath $(COLD:%=-gcflags=%/...=-l) -ldflags '-s -w -X main.version=$(VERSION) -funcalign=8' -o $(BATCHFLEET) ./cmd/batchfleet

.PHONY: agent
agent: ## build bin/zpe-worker, which is only an agent of a gateway
	CGO_ENABLED=0 go build -tags $(TAGS) -trimpath $(COLD:%=-gcflags=%/...=-l) -ldflags '-s -w -X main.version=$(VERSION) -funcalign=8' -o bin/zpe-worker ./cmd/zpe-worker

.PHONY: dev
dev: ## run a whole fleet in one process
	go run ./cmd/batchfleet dev

.PHONY: short
short: ## run the tests that take little time and start no processes, within a minute
	go test -short ./...

.PHONY: test
test: ## run all tests
	go test ./...
	go -C bench test ./...
	go -C grid/subject/oracle test .

.PHONY: race
race: ## run the tests with the race detector, but for those that it adds nothing to
	GORACE=atexit_sleep_ms=0 go test -race ./...
	go -C bench test -race ./...

.PHONY: sim
sim: ## run 10000 seeds of the simulation (SIMSEEDS), or one and its story (SIMSEED)
	SIMSEEDS=$${SIMSEEDS:-10000} go test ./sim -count=1 -timeout 0 -run KeepsItsPromises $${SIMSEED:+-v}

.PHONY: snippets
snippets: ## run the commands of README.md and docs; needs redis-server
	go test ./cli -run TestSnippets -count 1 -v

.PHONY: fmt
fmt: ## format the code
	go run $(GOLANGCI) fmt ./...

.PHONY: tidy
tidy: ## tidy go.mod here, and in the other modules, in this order
	go mod tidy
	go -C bench mod tidy
	go -C examples/wordcount mod tidy
	go -C grid/subject/oracle mod tidy

.PHONY: lint
lint: ## vet and lint
	go vet ./...
	go run $(GOLANGCI) run ./...
	go -C bench vet ./...
	go -C bench run $(GOLANGCI) run ./...
	go -C grid/subject/oracle vet .
	go run $(ACTIONLINT)

.PHONY: vuln
vuln: ## look for known vulnerabilities in what is called
	go run $(GOVULNCHECK) ./...
	go -C bench run $(GOVULNCHECK) ./...

.PHONY: clients
clients: ## install Google's Python and Node clients for the tests of the emulator, and a server of S3
	emulator/clienttest/setup.sh
	storage/s3/s3test/setup.sh

.PHONY: webcheck
webcheck: ## lint and test the web page; needs redis-server and chromium
	frontend/check.sh

.PHONY: apicheck
apicheck: ## send a real gateway what schemathesis makes of the OpenAPI document; needs redis-server
	cli/openapi/check.sh

.PHONY: relaycheck
relaycheck: ## test the example of an orchestrator; needs python3, curl and the server of S3
	PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -t examples/relay/orchestrator -s examples/relay/orchestrator/tests

.PHONY: image
image: ## build the image of batchfleet with docker
	docker build --build-arg VERSION=$(VERSION) -t batchfleet .

.PHONY: release
release: ## make archives, checksums and lists of modules of a tagged commit in dist, and the image
	deploy/release.sh

.PHONY: deploycheck
deploycheck: ## check images, compose file and manifests, without an engine; needs root for an empty root
	@set -e; venv=$$(mktemp -d); trap 'rm -rf "$$venv"' EXIT; \
	python3 -m venv "$$venv"; "$$venv/bin/pip" install -q --disable-pip-version-check -r deploy/requirements.txt; \
	PYTHON="$$venv/bin/python" deploy/check.sh

.PHONY: fuzz
fuzz: ## fuzz every parser of outside bytes, FUZZTIME (30s) each
	./fuzz.sh $${FUZZTIME:-30s}

.PHONY: bench
bench: ## measure emulator, fleet, gateway, programs, Job API and grid, with ratios in one run; needs redis-server, parallel, npm, python3
	go -C bench run . emulator fleet gateway batches noop programs programlog kindsfile joblog jobevents joblist grid

.PHONY: corpus
corpus: ## gather the documents for benchpdf from Debian packages, 600 MB
	bench/corpus/gather.sh

.PHONY: benchpdf
benchpdf: ## measure the PDF reader beside poppler and MuPDF
	go -C bench run . pdf
