package redact

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

type valuer struct{ text string }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("inside", v.text), slog.Any("cause", errors.New(v.text)))
}

type brokenError struct{}

func (*brokenError) Error() string { panic("no text") }

func TestJ27LogsShowNoSecrets(t *testing.T) {
	const secret = "password=CANARY bft_0123456789CANARY"
	err := fmt.Errorf("take back: %w", errors.Join(errors.New("ERR "+secret), errors.New("other")))
	type config struct {
		Password string `json:"p"`
		Other    string
	}
	for _, tt := range []struct {
		name string
		log  func(*slog.Logger)
	}{
		{"message", func(l *slog.Logger) { l.Info("got " + secret) }},
		{"string", func(l *slog.Logger) { l.Info("m", "name", secret) }},
		{"error", func(l *slog.Logger) { l.Info("m", "err", err) }},
		{"group", func(l *slog.Logger) { l.Info("m", slog.Group("g", "a", 1, slog.Group("h", "err", err))) }},
		{"what says how to log it", func(l *slog.Logger) { l.Info("m", "v", valuer{secret}) }},
		{"of the logger", func(l *slog.Logger) {
			l.With("name", secret, "err", err).WithGroup("g").With("v", valuer{secret}).Info("m")
		}},
		{"list", func(l *slog.Logger) { l.Info("m", "names", []string{"a", secret}) }},
		{"struct", func(l *slog.Logger) { l.Info("m", "config", config{Password: "CANARY"}) }},
		{"secret in the JSON of a struct", func(l *slog.Logger) { l.Info("m", "config", config{Other: secret}) }},
		{"map", func(l *slog.Logger) { l.Info("m", "config", map[string]any{"token": "CANARY"}) }},
		{"many", func(l *slog.Logger) { l.Info("m", "a", 1, "b", 2, "c", 3, "d", 4, "e", 5, "f", 6, "name", secret) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asJSON, asText bytes.Buffer
			tt.log(slog.New(Handler(slog.NewJSONHandler(&asJSON, nil))))
			tt.log(slog.New(Handler(slog.NewTextHandler(&asText, nil))))
			for _, got := range []string{asJSON.String(), asText.String()} {
				if strings.Contains(got, "CANARY") || !strings.Contains(got, Mark) {
					t.Errorf("logged: %s", got)
				}
			}
		})
	}
}

func TestJ27LogsKeepWhatIsNoSecret(t *testing.T) {
	log := func(l *slog.Logger) {
		l.With("job", "job_01K2Z3Y4X5W6V7T8S9R0Q1P2N3").WithGroup("g").Warn(
			"change asked for", "token", "ci-2", "hash", digest, "err", errors.New("read job: EOF"), "none", nil, "took", 3*time.Second,
			"names", []string{"a", "b"}, "n", 7, "ok", true, "level", slog.LevelInfo, slog.Group("h", "path", "/srv/a.pdf"), slog.Group("empty"),
		)
	}
	var want, got bytes.Buffer
	noTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	log(slog.New(slog.NewJSONHandler(&want, noTime)))
	log(slog.New(Handler(slog.NewJSONHandler(&got, noTime))))
	if got.String() != want.String() {
		t.Errorf("got  %swant %s", &got, &want)
	}
	l := slog.New(Handler(slog.NewJSONHandler(&got, &slog.HandlerOptions{Level: slog.LevelWarn})))
	got.Reset()
	if l.Info("m"); got.Len() != 0 {
		t.Errorf("logged below its level: %s", &got)
	}
	if l.Warn("m", "err", &brokenError{}, "none", (*brokenError)(nil)); !strings.Contains(got.String(), `"msg":"m"`) {
		t.Errorf("an error without a text: %s", &got)
	}
}

func BenchmarkPlainLog(b *testing.B) {
	l := slog.New(Handler(slog.NewJSONHandler(nowhere{}, nil)))
	b.ReportAllocs()
	for b.Loop() {
		l.Info("job ended", "job", "job_01K2Z3Y4X5W6V7T8S9R0Q1P2N3", "attempt", 1, "took", time.Second)
	}
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
