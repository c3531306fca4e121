package program

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogLeavesOutAnErrorThatIsNone(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := NewLog(f, slog.LevelInfo)
	var none error
	log.Info("agent stopped", "err", none)
	log.Info("agent stopped", "err", errors.New("so it is"))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if strings.Contains(lines[0], "err") || !strings.Contains(lines[1], `"err":"so it is"`) {
		t.Errorf("got\n%s", text)
	}
}
