package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// page returns the status and the text of a page.
func pageOf(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestD20DevHasADashboardAndItsCommandServesOneElsewhere(t *testing.T) {
	testrun.Long(t, "it starts a fleet")
	t.Parallel()
	d := startDev(t, "MOCK_PAGE_SECONDS=0.1")
	first := regexp.MustCompile(`(?m)\A.*\n\n  Dashboard  (http://127.0.0.1:\d+/)$`).FindStringSubmatch(d.process.log.String())
	if first == nil {
		t.Fatalf("the welcome does not begin with the dashboard:\n%s", d.process.log.String())
	}
	if err := os.WriteFile(filepath.Join(d.dir, "a.pdf"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(0, "", "submit", "--kind", "mock", "--wait", filepath.Join(d.dir, "a.pdf"))
	p := launch(t, batchfleet(t, d.env, "dashboard", "--api", d.api, "--addr", "127.0.0.1:0"))
	p.untilLogged("/\n")
	elsewhere := regexp.MustCompile(`at (http://\S+)\n`).FindStringSubmatch(p.log.String())[1]
	for _, address := range []string{first[1], elsewhere} {
		status, text := pageOf(t, address+"jobs?scope=fleet&state=succeeded")
		if status != http.StatusOK || !strings.Contains(text, `href="/jobs/fleet/`) {
			t.Errorf("%s: status %d\n%s", address, status, text)
		}
		if status, text := pageOf(t, address+"healthz"); status != http.StatusOK {
			t.Errorf("%shealthz: %d %s", address, status, text)
		}
	}
}

func TestD23ADashboardWithATokenOfItsOwnListensOnLoopbackOnly(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("bft_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--api (or BATCHFLEET_API) is needed":        {},
		"is not on loopback: leave out --token-file": {"--api", "https://jobs.example.com", "--addr", "0.0.0.0:0", "--token-file", token},
		"give --tls-cert and --tls-key":              {"--api", "https://jobs.example.com", "--addr", "0.0.0.0:0"},
		"must begin with https://":                   {"--api", "http://jobs.example.com"},
		"--trusted-proxy is \"x\"":                   {"--api", "https://jobs.example.com", "--trusted-proxy", "x"},
		"come together":                              {"--api", "https://jobs.example.com", "--tls-cert", "x"},
		"--addr is \"x\"":                            {"--api", "https://jobs.example.com", "--addr", "x"},
	} {
		code, _, errOut := output(t, batchfleet(t, nil, append([]string{"dashboard"}, args...)...))
		if code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("dashboard %q: exit code %d, want 2 and %q\n%s", args, code, want, errOut)
		}
	}
}
