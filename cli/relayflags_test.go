package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestR73AssetsHoldNothingOfTheRelay(t *testing.T) {
	other := t.TempDir()
	token := filepath.Join(other, "relay.token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, tt := range map[string]struct{ dir, token, secret, want string }{
		"nothing of it":   {dir: other, token: token},
		"no token file":   {dir: other, token: "-"},
		"its directory":   {dir: "relay_runtime", token: token, want: "relay_runtime, which no task may read"},
		"its token file":  {dir: other, token: "relay.token", want: "relay.token, which no task may read"},
		"its secret file": {dir: other, token: token, secret: "secret", want: "secret, which no task may read"},
	} {
		t.Run(name, func(t *testing.T) {
			f := relayDefaultFlags()
			f.dir, f.tokenFile, f.secretFile, f.assets = tt.dir, tt.token, tt.secret, []string{"."}
			_, err := f.relay(t.Context(), slog.New(slog.DiscardHandler))
			got := ""
			for line := range strings.Lines(err.Error()) { // others are about what this test does not give
				if strings.HasPrefix(line, "--assets: ") {
					got += line
				}
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the relay says %q, want %q", got, tt.want)
			}
		})
	}
}
