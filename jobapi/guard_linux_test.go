package jobapi_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

func TestAFileOfTokensThatCannotBeOpenedForAMomentIsReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		token := addToken(t, file, "a", access.Read, time.Time{})
		var logged testlog.Buffer
		s, _ := polled()
		var err error
		if s.Guard, err = jobapi.OpenTokens(file, "", slog.New(slog.NewTextHandler(&logged, nil))); err != nil {
			t.Fatal(err)
		}
		g := serve(t, s)
		try := func(when string, want int) {
			t.Helper()
			if a := g.ask(t, "GET "+fleetJob, "", "Authorization", "Bearer "+token); a.status != want {
				t.Errorf("%s: %d, want %d", when, a.status, want)
			}
		}
		try("at first", 200)
		if err := access.RevokeToken(file, "a"); err != nil {
			t.Fatal(err)
		}
		withoutFiles(t, func() {
			for range 3 {
				time.Sleep(3 * time.Second)
				try("while the server cannot open files", 200)
			}
		})
		if n := strings.Count(logged.String(), "keeping the tokens read before"); n != 1 {
			t.Errorf("%d warnings, want one: %s", n, logged.String())
		}
		time.Sleep(3 * time.Second)
		try("when it can again", 401)
		g.stop()
	})
}

// withoutFiles calls do while this process can open no file.
func withoutFiles(t *testing.T, do func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := syscall.Rlimit{Cur: 3, Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}
