package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// healthcheck runs the command as a container engine does and returns its exit
// code and all it said.
func healthcheck(t *testing.T, env []string, args ...string) (code int, said string) {
	t.Helper()
	cmd := batchfleet(t, env, append([]string{"healthcheck", "--timeout=1m"}, args...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// noListener is an address without a listener.
const noListener = "127.0.0.1:1"

func TestF60HealthcheckNeedsNoShell(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "redis is away", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/healthz", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	addr := strings.TrimPrefix(srv.URL, "http://")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name string
		env  []string
		args []string
		code int
		says string
	}{
		{"address", nil, []string{addr}, 0, "ok"},
		{"port alone means this machine", nil, []string{":" + port}, 0, "ok"},
		{"address of all interfaces means this machine", nil, []string{"0.0.0.0:" + port}, 0, "ok"},
		{"URL is asked as it stands, and the reason is told", nil, []string{srv.URL + "/readyz"}, 1, "503 Service Unavailable: redis is away"},
		{"redirect is not health", nil, []string{srv.URL + "/moved"}, 1, "302 Found"},
		{"silence is not health", nil, []string{"--timeout", "200ms", srv.URL + "/slow"}, 1, "deadline exceeded"},
		{"no listener", nil, []string{noListener}, 1, "connection refused"},
		{"worker of this container", []string{"HTTP_ADDR=:" + port}, nil, 0, "ok"},
		{"emulator of this container", []string{"HTTP_ADDR=" + noListener, "EMULATOR_ADDR=:" + port}, nil, 0, "ok"},
		{"neither answers", []string{"HTTP_ADDR=" + noListener, "EMULATOR_ADDR=" + noListener}, nil, 1, "connection refused"},
		{"nothing to ask", nil, nil, 2, "set HTTP_ADDR or EMULATOR_ADDR"},
		{"neither address nor URL", nil, []string{"localhost"}, 2, `not an address such as :8080 or 127.0.0.1:8080, nor a URL: "localhost"`},
		{"no port", nil, []string{":x"}, 2, "not an address"},
		{"no port there is", nil, []string{"127.0.0.1:65536"}, 2, "not an address"},
		{"mistake in the environment", []string{"HTTP_ADDR=8080"}, nil, 2, "HTTP_ADDR: not an address"},
		{"other schemes", nil, []string{"file:///etc/passwd"}, 2, "not an http URL"},
		{"timeout without a limit", nil, []string{"--timeout", "1h", addr}, 2, "must be from 100ms to 1m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, said := healthcheck(t, tt.env, tt.args...)
			if code != tt.code || !strings.Contains(said, tt.says) {
				t.Errorf("exit code %d, said %q; want %d and %q", code, said, tt.code, tt.says)
			}
		})
	}
}

func TestF60HealthURLOfIPv6(t *testing.T) {
	if got, err := healthURL("[::]:8080"); err != nil || got != "http://[::1]:8080/healthz" {
		t.Errorf("healthURL([::]:8080) = %q, %v; want http://[::1]:8080/healthz", got, err)
	}
}
