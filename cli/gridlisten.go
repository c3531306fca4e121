package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/grid/access"
)

// gridListen has the flags and the argument of a process that peers of the grid connect to: a leader or a router.
type gridListen struct {
	port              string // the argument
	addr, metricsAddr string
	acl               string
	certFile, keyFile string
	clientCA          string
	insecure          bool

	maxConns, maxPerIP int

	listener net.Listener // in place of addr and port, if not nil
}

// register registers the flags; peers names who connects, such as clients.
func (f *gridListen) register(flags *pflag.FlagSet, peers string) {
	flags.StringVar(&f.addr, "addr", "127.0.0.1", "where to listen for "+peers+", without the port; an address that other machines reach needs TLS or --insecure")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "where to serve /metrics, beside /healthz and /readyz, without credentials")
	flags.StringVar(&f.acl, "acl", "", "file with the rules of who may do what, read again at SIGHUP; everybody may do everything when empty")
	flags.StringVar(&f.certFile, "tls-cert", "", "certificate chain in PEM, with --tls-key")
	flags.StringVar(&f.keyFile, "tls-key", "", "key of the certificate")
	flags.StringVar(&f.clientCA, "client-ca", "", "certificates in PEM of authorities: "+peers+" need a certificate from one of them")
	flags.BoolVar(&f.insecure, "insecure", false, "listen for other machines without TLS: on a network that you trust")
	flags.IntVar(&f.maxConns, "max-conns", 20_000, "connections at once")
	flags.IntVar(&f.maxPerIP, "max-conns-per-ip", 0, "connections at once of one address; as many as --max-conns when 0")
}

// check returns all that is wrong with the flags.
func (f *gridListen) check() []error {
	wrong := []error{checkPort("PORT", f.port, 0), f.checkAddr()}
	if f.metricsAddr != "" {
		wrong = append(wrong, settings.CheckListen("--metrics-addr", f.metricsAddr, "127.0.0.1:9090"))
	}
	if (f.certFile == "") != (f.keyFile == "") {
		wrong = append(wrong, errors.New("--tls-cert and --tls-key are given together"))
	}
	if f.clientCA != "" && f.certFile == "" {
		wrong = append(wrong, errors.New("--client-ca is for TLS: give --tls-cert and --tls-key, too"))
	}
	return append(wrong, checkNumbers(
		flagNumber{"--max-conns", int64(f.maxConns), 1, 1_000_000}, flagNumber{"--max-conns-per-ip", int64(f.maxPerIP), 0, 1_000_000},
	)...)
}

// flagNumber is the value of a flag, and its limits.
type flagNumber struct {
	flag           string
	is, from, upTo int64
}

// checkNumbers returns an error for each number outside its limits.
func checkNumbers(all ...flagNumber) (wrong []error) {
	for _, n := range all {
		if n.is < n.from || n.is > n.upTo {
			wrong = append(wrong, fmt.Errorf("%s is %d: must be from %d to %d", n.flag, n.is, n.from, n.upTo))
		}
	}
	return wrong
}

// checkAddr returns what is wrong with the address: other machines may reach it only with TLS or --insecure.
func (f *gridListen) checkAddr() error {
	if _, _, err := net.SplitHostPort(f.addr); err == nil {
		return fmt.Errorf("--addr is %.80q: the port is the argument, so give the address alone", f.addr)
	}
	if err := access.CheckListen(f.address(), f.certFile != "", f.insecure); err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	return nil
}

// address is where to listen.
func (f *gridListen) address() string { return net.JoinHostPort(f.addr, f.port) }

// warn logs settings that are allowed, but seldom meant.
func (f *gridListen) warn(ctx context.Context, log *slog.Logger) {
	if f.acl == "" && !onLoopback(f.address()) && f.clientCA == "" {
		log.WarnContext(ctx, "everybody who reaches this port may run programs on the workers", "do", "give --acl, or --client-ca")
	}
	if f.insecure && f.certFile == "" && !onLoopback(f.address()) {
		log.WarnContext(ctx, "what is sent to this port is not encrypted", "do", "give --tls-cert and --tls-key")
	}
}

// openRules reads the rules of --acl. Without the flag everything is allowed.
func (f *gridListen) openRules() (*access.File, error) {
	file, err := access.Open(f.acl)
	if err != nil {
		return nil, fmt.Errorf("--acl: %w", err)
	}
	return file, nil
}

// listen opens the port. It adds to reread what reads the certificate files again.
func (f *gridListen) listen(ctx context.Context, log *slog.Logger, reread *[]func() error) (net.Listener, error) {
	var config *tls.Config
	if f.certFile != "" {
		server, err := access.OpenServerTLS(f.certFile, f.keyFile, f.clientCA, log)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key and --client-ca: %w", err)
		}
		*reread = append(*reread, server.Reload)
		config = server.Config()
	}
	l := f.listener
	if l == nil {
		var err error
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", f.address())
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w (is another leader or router running?)", err)
		}
		if err != nil {
			return nil, fmt.Errorf("PORT: %w", err)
		}
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}
