package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/safefile"
)

// devRelayDir has what dev --relay keeps.
const devRelayDir = "./dev_relay"

// runDevRelay runs a relay and a small orchestrator in this process, until ctx ends.
func runDevRelay(ctx context.Context, kindsFile string, slots int, out io.Writer) error {
	if kindsFile == "" {
		return program.Exit(program.Usage, errors.New("--relay needs --kinds (or KINDS_FILE): the programs that it runs, such as examples/relay/kinds.toml"))
	}
	set, err := kinds.Read(kindsFile)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	if len(set.Kinds) == 0 {
		return program.Exit(program.Usage, severalKinds(kindsFile, set, ""))
	}
	if err := safefile.Dir(devRelayDir); err != nil {
		return program.Exit(program.Usage, err)
	}
	token := make([]byte, 32)
	_, _ = rand.Read(token) // it never fails
	tokenFile := filepath.Join(devRelayDir, "relay.token")
	if err := safefile.Replace(tokenFile, []byte(hex.EncodeToString(token)+"\n")); err != nil {
		return err
	}
	orchestrator, err := listenNear(ctx, "the orchestrator", "127.0.0.1:9000")
	if err != nil {
		return err
	}
	l, err := listenNear(ctx, "the relay", "127.0.0.1:8090")
	if err != nil {
		return err
	}
	f := relayDefaultFlags()
	f.listener, f.dir, f.kinds, f.tokenFile = l, filepath.Join(devRelayDir, "relay_runtime"), kindsFile, tokenFile
	f.orchestrator, f.slots = "http://"+orchestrator.Addr().String(), slots
	received := filepath.Join(devRelayDir, "received")
	o := &devOrchestrator{token: hex.EncodeToString(token), dir: received, out: out}
	var serving sync.WaitGroup
	serve, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the relay, which may still have something to send
	serving.Go(func() {
		log := program.NewLog(os.Stderr, 0)
		if err := (&httpd.Server{Handler: o.handler(log), Log: log, ReadTimeout: uploadTime}).Serve(serve, orchestrator); err != nil {
			fmt.Fprintln(out, "the orchestrator has ended:", err)
		}
	})
	fmt.Fprint(out, devRelayWelcome(l.Addr().String(), orchestrator.Addr().String(), received, tokenFile, set.Kinds[0]))
	err = f.serve(ctx, io.Discard)
	stop()
	serving.Wait()
	return err
}

// relayDefaultFlags returns the flags of a relay as they are when none is given.
func relayDefaultFlags() *relayFlags {
	f := &relayFlags{}
	f.register(&cobra.Command{})
	return f
}

// devRelayWelcome says where everything is, and what to type.
func devRelayWelcome(relay, orchestrator, received, tokenFile string, k *kinds.Kind) string {
	fields := []string{`"job_id":"demo-1"`, fmt.Sprintf(`"kind":%q`, k.Name)}
	var options []string
	for _, p := range k.Params {
		switch {
		case p.Name == "prompt":
			fields = append(fields, `"input":{"prompt":"a red ball on a green hill"}`)
		case p.Required:
			options = append(options, fmt.Sprintf("%q:VALUE", p.Name))
		}
	}
	if len(options) > 0 {
		fields = append(fields, `"options":{`+strings.Join(options, ",")+"}")
	}
	fields = append(fields, fmt.Sprintf(`"callback_url":"http://%s/api/relay/events"`, orchestrator))
	var b strings.Builder
	fmt.Fprintf(&b, "A relay is up, and an orchestrator that shows what arrives. Stop them with Ctrl-C.\n\n")
	fmt.Fprintf(&b, "  Dashboard     http://%[1]s/, with the token in %[4]s\n  Relay         http://%[1]s\n  Orchestrator  http://%[2]s, which keeps what it is sent in %[3]s\n", relay, orchestrator, received, tokenFile)
	fmt.Fprintf(&b, "\nIn another terminal, create a task, and look at it:\n\n")
	fmt.Fprintf(&b, "  curl -H \"X-Relay-Token: $(cat %s)\" -H 'Content-Type: application/json' http://%s/v1/tasks \\\n", tokenFile, relay)
	fmt.Fprintf(&b, "    -d '{%s}'\n", strings.Join(fields, ","))
	fmt.Fprintf(&b, "  %s relay list --api http://%s --token-file %s\n\n", typed(), relay, tokenFile)
	return b.String()
}
