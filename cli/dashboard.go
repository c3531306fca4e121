package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/dashboard"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/httpd/client"
)

// dashboardFlags are the flags of batchfleet dashboard, beside those of a connection.
type dashboardFlags struct {
	addr, certFile, keyFile string
	proxies                 []string
}

func dashboardCommand(c *connection) *cobra.Command {
	var f dashboardFlags
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve the dashboard of a server elsewhere, until SIGTERM",
		Long: "Serve the dashboard of a server elsewhere, until SIGTERM. `gateway`, `relay`, `grid leader` and `dev` have theirs at /;\n" +
			"this one is for a machine that reaches them. Visitors log in with tokens of their own.\n\n" +
			"With --token-file visitors on this machine need no token, and can only look: to change something they log in. It\n" +
			"listens on loopback then.",
		Example: `  batchfleet dashboard --api https://jobs.example.com
  batchfleet dashboard --api https://jobs.example.com --token-file read.token --addr 127.0.0.1:9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return program.Coded(cmd.Context(), f.serve(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	c.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8090", "where to listen; port 0 for a free one, which is printed")
	flags.StringVar(&f.certFile, "tls-cert", "", "certificate chain in PEM, with --tls-key")
	flags.StringVar(&f.keyFile, "tls-key", "", "key of the certificate")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", nil, "networks, as 10.0.0.0/8, of proxies that end TLS and say X-Forwarded-Proto")
	return cmd
}

// serve serves the dashboard until ctx ends.
func (f *dashboardFlags) serve(ctx context.Context, c *connection, out, stderr io.Writer) error {
	log := program.NewLog(os.Stderr, slog.LevelInfo)
	token, err := c.token(ctx, stderr)
	if err != nil {
		return program.Mistake(ctx, err)
	}
	api, proxies, err := f.check(c, token)
	if err != nil {
		return program.Exit(program.Usage, err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w (is another dashboard or a relay running? --addr takes another port)", err)
	}
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("--addr: %w", err))
	}
	defer api.Close()
	d := &dashboard.Dashboard{
		API: dashboard.Forward(api.Base(), api.Transport, log), Log: log, Admit: httpd.SecureOnly(proxies), Version: versionText(), Token: token,
	}
	scheme := "http"
	if f.certFile != "" {
		scheme = "https"
	}
	fmt.Fprintf(out, "dashboard of %s at %s://%s/\n", api.Base(), scheme, l.Addr())
	server := &httpd.Server{Handler: d.Beside(httpd.Health(func() error { return nil })), Log: log, CertFile: f.certFile, KeyFile: f.keyFile} //nolint:contextcheck // pages use the context of their requests
	return server.Serve(ctx, l)
}

// check returns the client of the server, and all that is wrong with the flags.
func (f *dashboardFlags) check(c *connection, token string) (api *client.Client, proxies []netip.Prefix, err error) {
	wrong := []error{settings.CheckListen("--addr", f.addr, "127.0.0.1:8090")}
	address := c.address()
	if address == "" {
		wrong = append(wrong, errors.New("--api (or BATCHFLEET_API) is needed: the address of a server, such as https://jobs.example.com"))
	} else if base, err := client.ParseBase("server", "a token", address); err != nil {
		wrong = append(wrong, fmt.Errorf("--api: %w", err))
	} else if api, err = client.New(client.Config{Base: base, CAFile: c.trusted(), Version: versionText(), Connections: 64}); err != nil {
		wrong = append(wrong, fmt.Errorf("--ca-file: %w", err))
	}
	for _, p := range f.proxies {
		prefix, err := netip.ParsePrefix(p)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--trusted-proxy is %q: want a network such as 10.0.0.0/8", p))
		}
		proxies = append(proxies, prefix)
	}
	if (f.certFile == "") != (f.keyFile == "") {
		wrong = append(wrong, errors.New("--tls-cert and --tls-key come together"))
	} else if f.certFile != "" {
		wrong = append(wrong, checkCertificate(f.certFile, f.keyFile))
	}
	switch alone := onLoopback(f.addr); {
	case !alone && token != "":
		wrong = append(wrong, fmt.Errorf("--addr %s is not on loopback: leave out --token-file (and BATCHFLEET_TOKEN_FILE), or whoever comes could see what its token may see; visitors log in with their own", f.addr))
	case !alone && f.certFile == "" && len(proxies) == 0:
		wrong = append(wrong, fmt.Errorf("--addr %s is not on loopback: give --tls-cert and --tls-key, or the --trusted-proxy that ends TLS", f.addr))
	}
	return api, proxies, errors.Join(wrong...)
}
