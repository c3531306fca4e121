package program

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/redact"
)

// logged returns the lines that write makes a program log.
func logged(t *testing.T, write func(*slog.Logger)) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(NewLog(f, slog.LevelInfo))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

func TestLogLeavesOutAnErrorThatIsNone(t *testing.T) {
	lines := logged(t, func(log *slog.Logger) {
		var none error
		log.Info("agent stopped", "err", none)
		log.Info("agent stopped", "err", errors.New("so it is"))
	})
	if strings.Contains(lines[0], "err") || !strings.Contains(lines[1], `"err":"so it is"`) {
		t.Errorf("got\n%s", lines)
	}
}

func TestLogOfEveryProgramHasNoSecrets(t *testing.T) {
	lines := logged(t, func(log *slog.Logger) {
		log.With("source", "redis://:hunter22@db:6379").Warn("cannot connect", "err", errors.New("dial with password=hunter22"))
	})
	if strings.Contains(lines[0], "hunter22") || strings.Count(lines[0], redact.Mark) != 2 {
		t.Errorf("got\n%s", lines[0])
	}
}
