package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadToken(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a line", "secret-token\n", ""},
		{"without an end of line", "secret-token", ""},
		{"with blanks around it", "\n secret-token \r\n", ""},
		{"nothing", "", "token is empty: want one line"},
		{"blanks only", " \n", "token is empty: want one line"},
		{"two words", "secret-token and", "token has more than one word"},
		{"two lines", "secret-token\nand\n", "token has more than one word"},
		{"too much", "secret-token" + strings.Repeat("\n", maxToken), "token is longer than 4096 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			token, err := ReadToken(t.Context(), file)
			switch {
			case tt.want == "" && (err != nil || token != "secret-token"):
				t.Errorf("got %q, %v", token, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") || token != ""):
				t.Errorf("got %q, %v, want an error with %q", token, err, tt.want)
			}
		})
	}
}
