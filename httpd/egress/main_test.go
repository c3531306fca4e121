package egress

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain names proxies that do not exist: net/http reads the environment once, and does not use them for this machine.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://127.0.0.1:1"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
