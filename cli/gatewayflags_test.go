package cli

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// TestZ09GatewayIsNeverOpenByAccident starts gateways that must not run.
func TestZ09GatewayIsNeverOpenByAccident(t *testing.T) {
	t.Parallel()
	g := &testGateway{t: t, dir: t.TempDir()}
	short := g.write("short", "1234567890\n")
	good := g.write("good", testAdmin+"\n")
	words := g.write("words", testAdmin+"\nand more\n")
	missing, empty, same := filepath.Join(g.dir, "missing"), g.write("empty", ""), g.write("same", testAdmin)
	listed, reader := filepath.Join(g.dir, "job.tokens"), filepath.Join(g.dir, "reader")
	if code, _, stderr := g.runCommand(nil, "token", "new", "--file", listed, "--name", "reader", "--scope", "read", "--out", reader); code != 0 {
		t.Fatal(stderr)
	}
	if err := os.Chmod(good, 0o644); err != nil { // which is worth a warning, but not beside a mistake
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		env  []string
		says []string
	}{
		{"beyond loopback", []string{"--addr", "0.0.0.0:0"}, nil, []string{"--tls-cert", "--client-token-file", "--open-submission"}},
		{"beyond loopback without a client token", []string{"--addr", "0.0.0.0:0", "--trusted-proxy", "10.0.0.0/8"}, nil, []string{"--client-token-file"}},
		{"short admin token", []string{"--admin-token-file", short}, nil, []string{"10 characters", "openssl rand"}},
		{"no file of the admin token", []string{"--admin-token-file", missing}, nil, []string{"--admin-token-file", "no such file"}},
		{"more than a token", []string{"--client-token-file", words}, nil, []string{"more than one word"}},
		{"certificate without a key", []string{"--tls-cert", good}, nil, []string{"come together"}},
		{"no certificate", []string{"--tls-cert", missing, "--tls-key", good}, nil, []string{"--tls-cert", "no such file"}},
		{"no files of a certificate", []string{"--tls-cert", missing, "--tls-key", missing + ".key"}, nil, []string{"--tls-cert: open " + missing + ": no such file or directory; --tls-key: open " + missing + ".key: no such file or directory\n"}},
		{"one file for the admin and the client token", []string{"--admin-token-file", good, "--client-token-file", good}, nil, []string{"--admin-token-file and --client-token-file hold the same token"}},
		{"one token in two files", []string{"--admin-token-file", good, "--client-token-file", same}, nil, []string{"--admin-token-file and --client-token-file hold the same token"}},
		{"a token of the Job API that is the admin token", []string{"--admin-token-file", reader, "--job-tokens-file", listed}, nil, []string{"the token in --admin-token-file is that of reader in --job-tokens-file"}},
		{"a client token and none needed", []string{"--client-token-file", good, "--open-submission"}, nil, []string{"--client-token-file and --open-submission contradict each other"}},
		{"an empty file", []string{"--admin-token-file", empty}, nil, []string{"--admin-token-file: " + empty + " is empty"}},
		{"a port alone", []string{"--addr", "8080", "--client-token-file", good}, nil, []string{`batchfleet: --addr is "8080": want HOST:PORT, such as 127.0.0.1:8080` + "\n"}},
		{"a port that is none", []string{"--addr", "127.0.0.1:99999"}, nil, []string{`--addr is "127.0.0.1:99999": want HOST:PORT, such as 127.0.0.1:8080`}},
		{"a port alone for metrics", []string{"--metrics-addr", "9090"}, nil, []string{`--metrics-addr is "9090": want HOST:PORT`}},
		{"no proxy's network", []string{"--trusted-proxy", "proxy"}, nil, []string{"--trusted-proxy", "10.0.0.0/8"}},
		{"results kept shorter than a lease", nil, []string{"RESULT_TTL=5m", "LEASE_TTL=60s"}, []string{"RESULT_TTL is 5m0s: must not be shorter than a lease or the wait before a re-run, which are up to 24h0m0s"}},
		{"results kept shorter than a lease without heartbeats", nil, []string{"RESULT_TTL=2h", "LEASE_TTL_LEGACY=3h"}, []string{"which are up to 3h0m0s"}},
		{"results kept shorter than the last wait before a re-run", nil, []string{"RESULT_TTL=150s", "LEASE_TTL=60s", "JOB_TIMEOUT=60s", "MAX_RETRIES=4"}, []string{"which are up to 2m40s"}},
		{"bad numbers, all at once", nil, []string{"LEASE_TTL=0", "MAX_RETRIES=1000", "REAP_INTERVAL=x"}, []string{"LEASE_TTL", "MAX_RETRIES", "REAP_INTERVAL"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"gateway", "--addr", "127.0.0.1:0"}, tt.args...)
			code, stdout, stderr := g.runCommand(tt.env, args...)
			if code != 2 || stdout != "" {
				t.Errorf("exit code %d, want 2; printed %q", code, stdout)
			}
			for _, word := range tt.says {
				if !strings.Contains(stderr, word) {
					t.Errorf("stderr does not say %q:\n%s", word, stderr)
				}
			}
			for _, word := range []string{`"level"`, "is another gateway", "LEASE_SKEW"} {
				if strings.Contains(stderr, word) {
					t.Errorf("stderr says %q, too:\n%s", word, stderr)
				}
			}
			if text, err := os.ReadFile(good); err != nil || strings.Contains(stderr, strings.TrimSpace(string(text))) {
				t.Errorf("stderr quotes a token: %v\n%s", err, stderr)
			}
		})
	}
}

// TestZ04Z09GatewayKeepsWhatItsFlagsPromise asks a gateway that ends TLS itself.
func TestZ04Z09GatewayKeepsWhatItsFlagsPromise(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	certFile, keyFile := g.certificate()
	addr, token := freeAddr(t), "client-token-of-the-tests-0123456789"
	url := "https://" + addr
	g.startProcess(g.environment(g.atRedis()...),
		"gateway", "--addr", addr, "--tls-cert", certFile, "--tls-key", keyFile, "--client-token-file", g.write("client.token", token+"\n"))
	until(g.t, time.Minute, "the gateway is ready by HTTPS", func() bool {
		r, err := g.request(http.MethodGet, url+"/readyz", "", nil)
		return err == nil && r.status == http.StatusOK
	})
	for _, tt := range []struct {
		name, url, token, payload string
		status                    int
		says                      string
	}{
		{"plain HTTP", "http://" + addr, token, h2Payload, http.StatusBadRequest, "HTTP request to an HTTPS server"},
		{"no token", url, "", h2Payload, http.StatusUnauthorized, `"UNAUTHORIZED"`},
		{"another token", url, testAdmin, h2Payload, http.StatusUnauthorized, `"UNAUTHORIZED"`},
		{"no job of kind zpe", url, token, "{}", http.StatusBadRequest, `"INVALID_PAYLOAD"`},
		{"a job", url, token, h2Payload, http.StatusOK, `"job_id"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := g.request(http.MethodPost, tt.url+wire.PathJobs, tt.token, tt.payload)
			if err != nil || r.status != tt.status || !strings.Contains(string(r.body), tt.says) {
				t.Errorf("submit: %d %s %v, want %d with %s", r.status, r.body, err, tt.status, tt.says)
			}
		})
	}
}

func TestJ09OnlyAGatewayWithoutFlagsForOthersIsForItsMachineAlone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags gatewayFlags
		want  bool
	}{
		{"on loopback", gatewayFlags{addr: "127.0.0.1:8080"}, true},
		{"a certificate", gatewayFlags{addr: "127.0.0.1:8080", certFile: "chain.pem", keyFile: "key.pem"}, false},
		{"everywhere", gatewayFlags{addr: ":8080"}, false},
		{"client tokens from standard input", gatewayFlags{addr: "[::1]:8080", clientFile: "-"}, false},
	} {
		if got := tt.flags.alone(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// certificate returns the files of a certificate for 127.0.0.1, which the
// requests of g trust from now on.
func (g *testGateway) certificate() (certFile, keyFile string) {
	g.t.Helper()
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	g.t.Cleanup(srv.Close)
	g.client.Transport = srv.Client().Transport
	pair := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))),
		g.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

// TestZ09GatewayWithoutAClientTokenIsForItsMachineAlone is as an operator starts one
// who thinks of the Job API alone.
func TestZ09GatewayWithoutAClientTokenIsForItsMachineAlone(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	const warning = "everybody on this machine may submit, read and cancel jobs"
	admin := []string{"--admin-token-file", g.write("operator.token", testAdmin+"\n")}
	closed, url := g.startOpenGateway(nil, admin...)
	open, openURL := g.startOpenGateway(nil, append(admin, "--open-submission")...)
	for _, tt := range []struct {
		name, url string
		header    []string
		status    int
	}{
		{"a program", url, nil, http.StatusOK},
		{"another site's page", url, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{"a proxy", url, []string{"X-Forwarded-For", "192.0.2.1"}, http.StatusForbidden},
		{"a proxy, open", openURL, []string{"X-Forwarded-For", "192.0.2.1"}, http.StatusOK},
		{"another site's page, open", openURL, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
	} {
		r, err := g.request(http.MethodPost, tt.url+wire.PathJobs, "", h2Payload, tt.header...)
		if err != nil || r.status != tt.status {
			t.Errorf("%s: %d %s %v, want %d", tt.name, r.status, r.body, err, tt.status)
		}
	}
	if n := strings.Count(closed.log.String(), warning); n != 1 || !strings.Contains(closed.log.String(), "--client-token-file") {
		t.Errorf("it warns %d times, want 1:\n%s", n, closed.log)
	}
	if strings.Contains(open.log.String(), warning) {
		t.Errorf("it warns of what was asked for:\n%s", open.log)
	}
	if code, out, stderr := g.runCommand([]string{"BATCHFLEET_API=" + url}, "submit", "--kind", "zpe", g.write("h2.json", h2Payload)); code != 0 || out == "" {
		t.Errorf("our own client: exit code %d, %s", code, stderr)
	}
}

func TestZ09GatewayRefusesWhatAProxyTookInTheClear(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	const token = "client-token-of-the-tests-0123456789"
	_, url := g.startOpenGateway(nil, "--client-token-file", g.write("client.token", token+"\n"))
	for said, want := range map[string]int{"http": http.StatusForbidden, "https": http.StatusOK} {
		r, err := g.request(http.MethodPost, url+wire.PathJobs, token, h2Payload, "X-Forwarded-Proto", said)
		if err != nil || r.status != want {
			t.Errorf("X-Forwarded-Proto: %s: %d %s %v, want %d", said, r.status, r.body, err, want)
		}
	}
}
