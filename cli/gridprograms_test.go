package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestG60WorkersWarnOfProgramsThatCannotRun(t *testing.T) {
	t.Parallel()
	const none, some = "jobs for programs will be rejected", "jobs for some programs will be rejected"
	for _, tt := range []struct {
		name  string
		files map[string]os.FileMode // nil: there is no directory
		kinds bool
		want  string // in the log, which is empty if this is
	}{
		{"no directory", nil, false, none},
		{"no directory, but kinds", nil, true, ""},
		{"an empty directory", map[string]os.FileMode{}, false, none},
		{"an empty directory, but kinds", map[string]os.FileMode{}, true, ""},
		{"a program", map[string]os.FileMode{"a.exe": 0o700, "notes.txt": 0o600}, false, ""},
		{"a file that may not be executed", map[string]os.FileMode{"a.exe": 0o600}, false, none},
		{"such a file beside a program", map[string]os.FileMode{"a.exe": 0o700, "b.exe": 0o600}, false, some},
		{"a name that no job may have", map[string]os.FileMode{"a.exe": 0o700, "b c.exe": 0o700}, false, some},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := gridWorkerFlags{exeDir: filepath.Join(t.TempDir(), "exe")}
			if tt.files != nil {
				if err := os.Mkdir(f.exeDir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for name, mode := range tt.files {
				if err := os.WriteFile(filepath.Join(f.exeDir, name), nil, mode); err != nil {
					t.Fatal(err)
				}
			}
			var log strings.Builder
			f.warnOfPrograms(t.Context(), tt.kinds, slog.New(slog.NewTextHandler(&log, nil)))
			if got := log.String(); strings.Contains(got, "msg=") != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("the log is %q, want %q", got, tt.want)
			}
		})
	}
}
