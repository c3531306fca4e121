package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/pflag"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/httpd"
)

// gridPeer has the flags of a process that connects to leaders.
type gridPeer struct {
	prefix        string // of the flags' names
	tokenFile     string
	withTLS       bool
	tls           access.ClientTLS
	plaintextOkay bool

	// Set by open.
	token string
	dial  func(ctx context.Context, addr string) (net.Conn, error)
}

// flag is the name of a flag.
func (p *gridPeer) flag(name string) string { return p.prefix + name }

func (p *gridPeer) register(flags *pflag.FlagSet) {
	flags.StringVar(&p.tokenFile, p.flag("token-file"), "", "file with the token for the leaders; - for standard input")
	flags.BoolVar(&p.withTLS, p.flag("tls"), false, "connect with TLS; implied by the other flags about TLS")
	flags.StringVar(&p.tls.CAFile, p.flag("ca-file"), "", "certificates in PEM of the authorities to trust, and no others; those of the system when empty")
	flags.StringVar(&p.tls.ServerName, p.flag("tls-server-name"), "", "name that the certificate of a leader must have; its HOST when empty")
	flags.StringVar(&p.tls.CertFile, p.flag("tls-cert"), "", "certificate chain in PEM for leaders that ask for one, with --"+p.flag("tls-key"))
	flags.StringVar(&p.tls.KeyFile, p.flag("tls-key"), "", "key of the certificate")
	flags.BoolVar(&p.plaintextOkay, p.flag("insecure"), false, "allow the token to be sent to other machines without TLS")
}

// open reads the files that the flags name.
func (p *gridPeer) open(ctx context.Context, leaders []string, log *slog.Logger) error {
	encrypted := p.withTLS || p.tls != access.ClientTLS{}
	p.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	if encrypted {
		config, err := p.tls.Config(log)
		if err != nil {
			return fmt.Errorf("--%s: %w", p.flag("tls"), err)
		}
		p.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
		}
	}
	if p.tokenFile == "" {
		return nil
	}
	for _, addr := range leaders {
		if host, _, _ := net.SplitHostPort(addr); !encrypted && !p.plaintextOkay && !httpd.IsLoopback(host) {
			return fmt.Errorf("--%s: the token would be sent to %s unencrypted: give --%s, or --%s on a network that you trust", p.flag("token-file"), addr, p.flag("tls"), p.flag("insecure"))
		}
	}
	token, err := settings.ReadToken(ctx, p.tokenFile)
	if err != nil {
		return fmt.Errorf("--%s: %w", p.flag("token-file"), err)
	}
	if mode, ok := readByOthers(p.tokenFile); ok {
		log.WarnContext(ctx, "other users of this machine may read the token", "file", p.tokenFile, "mode", mode, "do", "chmod 600")
	}
	if len(token) > access.MaxToken {
		return fmt.Errorf("--%s: the token has %d bytes, leaders take at most %d", p.flag("token-file"), len(token), access.MaxToken)
	}
	p.token = token
	return nil
}
