package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/relay"
)

// While tokens change, the file of a relay has two; its commands send the first.
func TestR02CommandsTakeAFileWithTheNextToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "relay.token")
	const first, second = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	for _, tt := range []struct{ scope, text, want, mistake string }{
		{relay.Scope, first + "\n", first, ""},
		{relay.Scope, first + "\n" + second + "\n", first, ""},
		{relay.Scope, first + "\n" + second + "\n" + first, "", "there must be 1 to 2 lines"},
		{relay.Scope, "\n", "", "there must be 1 to 2 lines"},
		{"fleet", first + "\n" + second + "\n", "", "more than one word"},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &connection{scope: tt.scope, tokenFile: file}
		got, err := c.token(t.Context(), t.Output())
		if got != tt.want || (err == nil) != (tt.mistake == "") || err != nil && !strings.Contains(err.Error(), tt.mistake) {
			t.Errorf("scope %s, %d bytes: %q, %v; want %q, %q", tt.scope, len(tt.text), got, err, tt.want, tt.mistake)
		}
	}
}

func TestRelayDoctorLooksAtTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := &relayFlags{addr: l.Addr().String(), dir: filepath.Join(t.TempDir(), "relay_runtime")}
	if found, err := f.lookAtAddress(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("an address in use: %q, %v", found, err)
	}
	f.addr = "127.0.0.1:0"
	if found, err := f.lookAtAddress(t.Context()); err != nil || found != "free" {
		t.Errorf("a free address: %q, %v", found, err)
	}
}
