package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/relay"
	"github.com/batchfleet/batchfleet/safefile"
)

// relayFlags are the flags of batchfleet relay.
type relayFlags struct {
	addr, metricsAddr string
	dir, kinds        string
	tokenFile         string
	orchestrator      string
	upload            string
	secretFile        string
	gpus              string
	certFile, keyFile string

	hosts, storageHosts          []string
	networks, allowFrom, proxies []string
	assets                       []string
	slots, maxQueued             int
	maxAssets, minFree, maxBytes int64
	keep, drain                  time.Duration
	allowHTTP                    bool

	listener net.Listener // instead of addr; nil for none
}

// maxTokens is how many tokens are accepted at once: the present one and the next one.
const maxTokens = 2

func (f *relayFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8090", "where to listen; port 0 for a free one, which is printed")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "where to serve /metrics, beside /healthz and /readyz, without credentials")
	flags.StringVar(&f.dir, "dir", "./relay_runtime", "for tasks with their files and logs; one process each")
	flags.StringVar(&f.kinds, "kinds", "", "kinds file: the programs, read again at SIGHUP; KINDS_FILE when empty")
	flags.StringVar(&f.tokenFile, "token-file", "relay.token", "file with the shared token, and on a second line the next one, read again at SIGHUP; - for standard input")
	flags.StringVar(&f.orchestrator, "orchestrator", "", "address to send artifacts to, before its /api/jobs/…; without one they are fetched here")
	flags.StringVar(&f.upload, "upload", "multipart", "how artifacts are sent: multipart, or presigned: to URLs that the orchestrator gives")
	flags.StringSliceVar(&f.storageHosts, "storage-host", nil, "hosts that pre-signed URLs may name, as s3.example.com or *.example.com")
	flags.StringSliceVar(&f.hosts, "callback-host", nil, "hosts that callback URLs may name, beside the orchestrator")
	flags.StringSliceVar(&f.networks, "callback-network", nil, "private networks, as 10.1.0.0/16 or 127.0.0.0/8, that callbacks and pre-signed URLs may lead to")
	flags.StringVar(&f.secretFile, "callback-secret-file", "", "file with the secret, whsec_…, that callbacks are signed with")
	flags.BoolVar(&f.allowHTTP, "allow-http", false, "let callbacks and pre-signed URLs be http://, and the orchestrator elsewhere than on this machine")
	flags.StringSliceVar(&f.allowFrom, "allow-from", nil, "networks that callers may come from; this machine and private networks when empty")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", nil, "networks of proxies whose X-Forwarded-For is believed")
	flags.StringSliceVar(&f.assets, "assets", nil, "directories that assets, file:// URLs, may be read from; none when empty")
	flags.Int64Var(&f.maxAssets, "max-assets-bytes", 1<<30, "assets of a task together")
	flags.StringVar(&f.gpus, "gpus", "auto", "indices of the GPUs, such as 0,1; none; or auto: those that nvidia-smi -L lists")
	flags.IntVar(&f.slots, "slots", 1, "tasks at once of the kinds without slots or GPUs of their own")
	flags.IntVar(&f.maxQueued, "max-queued", 1000, "more tasks are refused")
	flags.Int64Var(&f.minFree, "min-free-bytes", 1<<30, "with less on the disk no task is taken or started")
	flags.Int64Var(&f.maxBytes, "max-bytes", 0, "of all tasks together: the oldest that have ended are deleted first; no limit when 0")
	flags.DurationVar(&f.keep, "keep", 30*24*time.Hour, "how long tasks are kept that have ended")
	flags.DurationVar(&f.drain, "drain-timeout", 8*time.Second, "what SIGTERM gives tasks to finish; then they are queued again")
	flags.StringVar(&f.certFile, "tls-cert", "", "certificate chain in PEM, with --tls-key")
	flags.StringVar(&f.keyFile, "tls-key", "", "key of the certificate")
}

// relay returns a relay as the flags say, which is not open, or all that is wrong with them.
func (f *relayFlags) relay(ctx context.Context, log *slog.Logger) (*relay.Relay, error) {
	var wrong []error
	fail := func(flag string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", flag, err))
		}
	}
	wrong = append(wrong, settings.CheckListen("--addr", f.addr, "127.0.0.1:8090"))
	if f.metricsAddr != "" {
		wrong = append(wrong, settings.CheckListen("--metrics-addr", f.metricsAddr, "127.0.0.1:9090"))
	}
	if f.kinds = cmp.Or(f.kinds, os.Getenv("KINDS_FILE")); f.kinds == "" {
		wrong = append(wrong, errors.New("--kinds is missing: give the kinds file, which describes the programs (docs/kinds.md)"))
	}
	for _, n := range []struct {
		flag           string
		is, from, upTo int64
	}{
		{"--slots", int64(f.slots), 1, 256},
		{"--max-queued", int64(f.maxQueued), 1, 1_000_000},
		{"--max-assets-bytes", f.maxAssets, 1, 1 << 40},
		{"--min-free-bytes", f.minFree, 0, 1 << 50},
		{"--max-bytes", f.maxBytes, 0, 1 << 50},
	} {
		if n.is < n.from || n.is > n.upTo {
			wrong = append(wrong, fmt.Errorf("%s is %d: must be from %d to %d", n.flag, n.is, n.from, n.upTo))
		}
	}
	if f.keep < time.Minute || f.keep > 10*366*24*time.Hour {
		wrong = append(wrong, fmt.Errorf("--keep is %s: must be from 1m to ten years", f.keep))
	}
	if f.drain < 0 || f.drain > 24*time.Hour {
		wrong = append(wrong, fmt.Errorf("--drain-timeout is %s: must be from 0s to 24h", f.drain))
	}
	if f.upload != "multipart" && f.upload != "presigned" {
		wrong = append(wrong, fmt.Errorf("--upload is %.40q: want multipart or presigned", f.upload))
	}
	if (f.certFile == "") != (f.keyFile == "") {
		wrong = append(wrong, errors.New("--tls-cert and --tls-key come together"))
	} else if f.certFile != "" {
		wrong = append(wrong, checkCertificate(f.certFile, f.keyFile))
	}
	r := &relay.Relay{
		Dir: f.dir, Log: log, Presigned: f.upload == "presigned", MaxQueued: f.maxQueued, MinFree: f.minFree, MaxBytes: f.maxBytes, Keep: f.keep, Drain: f.drain,
	}
	var err error
	r.Access.Tokens, err = settings.ReadTokens(ctx, f.tokenFile, maxTokens)
	fail("--token-file", err)
	if err == nil {
		fail("--token-file", r.Access.Check())
	}
	r.Access.Allowed, err = prefixes(f.allowFrom)
	fail("--allow-from", err)
	if len(f.allowFrom) == 0 {
		r.Access.Allowed = relay.DefaultAllowed
	}
	r.Access.Proxies, err = prefixes(f.proxies)
	fail("--trusted-proxy", err)
	networks, err := prefixes(f.networks)
	fail("--callback-network", err)
	r.Callbacks, err = f.policy(f.hosts, networks)
	fail("--callback-host", err)
	r.Storage, err = f.policy(f.storageHosts, networks)
	fail("--storage-host", err)
	if r.Presigned && (f.orchestrator == "" || len(f.storageHosts) == 0) {
		wrong = append(wrong, errors.New("--upload presigned needs --orchestrator, which gives the URLs, and --storage-host, which they may name"))
	}
	if f.orchestrator != "" {
		r.Orchestrator, err = f.orchestratorURL()
		fail("--orchestrator", err)
	}
	if f.secretFile != "" {
		text, err := safefile.Secret(f.secretFile, 4096, safefile.OthersWrite)
		if err == nil {
			r.Secret, err = relay.ParseSecret(strings.TrimSpace(string(text)))
		}
		fail("--callback-secret-file", err)
	}
	r.Assets.MaxBytes = f.maxAssets
	for _, dir := range f.assets {
		dir, err := filepath.Abs(dir)
		if err == nil {
			var info os.FileInfo
			if info, err = os.Stat(dir); err == nil && !info.IsDir() {
				err = errors.New("it is no directory")
			}
		}
		for _, own := range []string{f.dir, f.tokenFile, f.secretFile} {
			if own == "" || own == "-" { // it is no file
				continue
			}
			if own, wrong := filepath.Abs(own); err == nil && wrong == nil && isBelow(own, dir) {
				err = fmt.Errorf("%s holds %s, which no task may read: keep it elsewhere", dir, own)
			}
		}
		fail("--assets", err)
		r.Assets.Roots = append(r.Assets.Roots, dir)
	}
	return r, errors.Join(wrong...)
}

// isBelow reports whether a path leads to a directory or below it.
func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// orchestratorURL returns the address of the orchestrator, which is sent the token.
func (f *relayFlags) orchestratorURL() (*url.URL, error) {
	u, err := url.Parse(f.orchestrator)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("want an address such as https://orchestrator.example.com") // not quoted: it may hold a password
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("want an address without user, query and fragment")
	case u.Scheme == "http" && !f.allowHTTP && !httpd.IsLoopback(u.Hostname()):
		return nil, errors.New("it is sent the token, so it must be https, or on this machine; --allow-http allows what is not encrypted")
	}
	return u, nil
}

// policy allows hosts, which may be given with a port.
func (f *relayFlags) policy(hosts []string, networks []netip.Prefix) (egress.Policy, error) {
	p := egress.Policy{Networks: networks, HTTP: f.allowHTTP}
	for _, host := range hosts {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			p.Hosts = append(p.Hosts, host)
			continue
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return p, fmt.Errorf("%.100q has no port from 1 to 65535", host)
		}
		p.Hosts, p.Ports = append(p.Hosts, name), append(p.Ports, uint16(n))
	}
	if len(p.Ports) > 0 {
		p.Ports = append(p.Ports, 443)
		if f.allowHTTP {
			p.Ports = append(p.Ports, 80)
		}
	}
	return p, p.Validate()
}

// prefixes reads networks.
func prefixes(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%.60q is no network such as 10.0.0.0/8", text)
		}
		all = append(all, p)
	}
	return all, nil
}
