package cli

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobs"
)

// welcome says where everything is, and what to type: commands that work as they stand, one of them for jobs of a
// kind, which may be empty.
func (f *fleet) welcome(kind jobs.Kind) string {
	path, err := filepath.Abs(f.env.Path)
	if err != nil {
		path = f.env.Path
	}
	storage := cmp.Or(f.env.bucketURL(), path)
	var b strings.Builder
	fmt.Fprintf(&b, "A fleet with %s is up. Stop it with Ctrl-C.\n\n", jobs.Count(f.env.Slots, "slot"))
	if f.http != "" {
		fmt.Fprintf(&b, "  Dashboard  http://%s/\n", f.http)
	}
	fmt.Fprintf(&b, "  Pub/Sub    %s (gRPC and REST), project %s, topic %s\n", f.addr, f.env.Project, f.env.Topic)
	fmt.Fprintf(&b, "  Redis      %s\n", f.redis.Addr())
	fmt.Fprintf(&b, "  Storage    %s\n", storage)
	if f.http != "" {
		fmt.Fprintf(&b, "  Job API    http://%s/api/v1/, for callers on this machine\n", f.http)
	}
	if f.env.HTTPAddr != "" {
		fmt.Fprintf(&b, "  HTTP       %s (/healthz /readyz /metrics)\n", f.env.HTTPAddr)
	}
	variables := []string{"PUBSUB_EMULATOR_HOST=" + f.addr, "GCP_PROJECT_ID=" + f.env.Project, "REDIS_HOST=" + f.redis.Host(), "REDIS_PORT=" + f.redis.Port()}
	if f.env.DeadTopic != "" {
		variables = append(variables, "DEAD_LETTER_TOPIC="+program.ShellWord(f.env.DeadTopic))
	}
	if f.env.Type == "LOCAL" {
		variables = append(variables, "LOCAL_STORAGE_PATH="+program.ShellWord(path))
	}
	name := typed()
	fmt.Fprintf(&b, "\nIn another terminal, give it jobs, and look at them:\n\n")
	fmt.Fprintf(&b, "  export %s\n", strings.Join(variables, " "))
	fmt.Fprintf(&b, "  %s submit --wait FILE.pdf\n", name)
	if args := f.example(kind); args != "" {
		fmt.Fprintf(&b, "  %s submit --wait %s\n", name, args)
	}
	fmt.Fprintf(&b, "  %s list\n", name)
	message := base64.StdEncoding.EncodeToString([]byte(`{"job_id":"demo-1","kind":"mock","pages":5}`))
	fmt.Fprintf(&b, "\nWithout batchfleet, queue a simulated job and look at it:\n\n")
	fmt.Fprintf(&b, "  curl -X POST http://%s/v1/projects/%s/topics/%s:publish -H 'Content-Type: application/json' -d '{\"messages\":[{\"data\":\"%s\"}]}'\n",
		f.addr, f.env.Project, f.env.Topic, message)
	fmt.Fprintf(&b, "  redis-cli -h %s -p %s GET job:demo-1\n", f.redis.Host(), f.redis.Port())
	if f.http != "" {
		fmt.Fprintf(&b, "  curl http://%s/api/v1/fleet/jobs\n", f.http)
	}
	b.WriteString("\n")
	return b.String()
}

// example returns the arguments of a job of a kind, or else of the first one that is not built in. It is empty if
// there is none.
func (f *fleet) example(kind jobs.Kind) string {
	set := f.kinds.Set()
	if len(set.Kinds) == 0 {
		return ""
	}
	k := cmp.Or(set.Get(kind), set.Kinds[0])
	args := ""
	if path, err := filepath.Abs(f.env.File); f.env.File != "" && err == nil {
		args = "--kinds " + program.ShellWord(path) + " "
	}
	args += "--kind " + string(k.Name)
	for _, p := range k.Params {
		if p.Required {
			args += " --param " + p.Name + "=VALUE"
		}
	}
	if k.NeedsInput() || k.IsOwn() {
		args += " FILE"
	}
	return args
}

// typed returns how to start this program as its user has.
func typed() string {
	self, err := os.Executable()
	if err != nil {
		return "batchfleet"
	}
	if strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "go run ./cmd/batchfleet"
	}
	if found, err := exec.LookPath(os.Args[0]); err == nil && !strings.Contains(os.Args[0], "/") && found != "" {
		return os.Args[0] // it is in PATH
	}
	return program.ShellWord(os.Args[0])
}
