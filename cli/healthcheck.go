package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
)

func healthcheckCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck [ADDR|URL]",
		Short: "Ask a worker or an emulator whether it is healthy, for containers without a shell",
		Long: "Ask a worker or an emulator whether it is healthy, and exit 0 if it is, 1 if not.\n" +
			"An address such as :8080 is asked for /healthz, a URL as it stands. Without either, what this\n" +
			"container would run is asked: the worker at HTTP_ADDR, then the emulator at EMULATOR_ADDR;\n" +
			"one healthy answer is enough.",
		Example: "  batchfleet healthcheck http://127.0.0.1:8080/readyz",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 100*time.Millisecond || timeout > time.Minute {
				return program.Exit(program.Usage, fmt.Errorf("--timeout is %s: must be from 100ms to 1m", timeout))
			}
			urls, err := healthURLs(args)
			if err != nil {
				return program.Exit(program.Usage, err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			text, err := askAny(ctx, urls)
			if err != nil {
				return program.Coded(cmd.Context(), err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for an answer, 100ms to 1m")
	return cmd
}

// healthURLs returns what to ask: the argument, or what the environment says
// is served here.
func healthURLs(args []string) ([]string, error) {
	if len(args) == 1 {
		one, err := healthURL(args[0])
		return []string{one}, err
	}
	var urls []string
	for _, name := range []string{"HTTP_ADDR", "EMULATOR_ADDR"} {
		addr := os.Getenv(name)
		if addr == "" {
			continue
		}
		one, err := healthURL(addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		urls = append(urls, one)
	}
	if urls == nil {
		return nil, errors.New("nothing to ask: give an address or a URL, or set HTTP_ADDR or EMULATOR_ADDR")
	}
	return urls, nil
}

// healthURL makes a URL of what may be an address to listen on: one without a
// host, or with 0.0.0.0 or ::, means this machine.
func healthURL(target string) (string, error) {
	if strings.Contains(target, "://") {
		u, err := url.Parse(target)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", fmt.Errorf("not an http URL: %q", target)
		}
		return target, nil
	}
	host, port, err := net.SplitHostPort(target)
	if number, odd := strconv.ParseUint(port, 10, 16); err != nil || odd != nil || number == 0 {
		return "", fmt.Errorf("not an address such as :8080 or 127.0.0.1:8080, nor a URL: %q", target)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/healthz"}).String(), nil
}

// askAny returns the first healthy answer, or what was wrong with all of them.
func askAny(ctx context.Context, urls []string) (string, error) {
	var wrong []error
	for _, one := range urls {
		text, err := ask(ctx, one)
		if err == nil {
			return text, nil
		}
		wrong = append(wrong, err)
	}
	return "", errors.Join(wrong...)
}

// ask returns the answer of a healthy service, whose status is 200. Redirects
// are not followed and proxies not used: health is what this very address says.
func ask(ctx context.Context, target string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", fmt.Errorf("ask for health: %w", err)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for health: %w", err)
	}
	defer resp.Body.Close()
	// A reason is a line or two; more is not read.
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return "", fmt.Errorf("read health from %s: %w", target, err)
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s says %s: %s", target, resp.Status, text)
	}
	return text, nil
}
