package program

import "testing"

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"./bin/batchfleet": "./bin/batchfleet", "fleet.pdf": "fleet.pdf", "": "''", "my token": "'my token'", "it's": `'it'\''s'`,
		"$HOME": "'$HOME'", "~/x": "'~/x'", "A=1": "'A=1'", "a\n": "'a\n'",
	} {
		if got := ShellWord(s); got != want {
			t.Errorf("ShellWord(%q) is %s, want %s", s, got, want)
		}
	}
}
