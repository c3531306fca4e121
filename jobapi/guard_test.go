package jobapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/redact"
)

// guarded returns a guard that knows only an admin token.
func guarded(t *testing.T, admin string) *jobapi.Guard {
	t.Helper()
	guard, err := jobapi.OpenTokens("", admin, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func addToken(t *testing.T, file, name string, scope access.Scope, expires time.Time) string {
	t.Helper()
	token, err := access.AddToken(file, name, scope, expires)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokensReachAsFarAsTheirScope(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	tokens := map[string]string{"admin-token": "the-admin-token"}
	for _, scope := range []access.Scope{access.Read, access.Operate, access.Admin} {
		tokens[scope.String()] = addToken(t, file, scope.String(), scope, time.Time{})
	}
	s, _, _ := twoScopes()
	var err error
	if s.Guard, err = jobapi.OpenTokens(file, "the-admin-token", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	g := serve(t, s)
	for _, tt := range []struct {
		what string
		may  string // who, by token
	}{
		{"GET /api/v1/system/jobs", "read operate admin admin-token"},
		{"GET /api/v1/system/jobs/job_s", "read operate admin admin-token"},
		{"GET /api/v1/system/jobs/job_s/logs", "read operate admin admin-token"},
		{"HEAD /api/v1/system/jobs/job_s/events", "read operate admin admin-token"},
		{"GET /api/v1/openapi.json", "read operate admin admin-token"},
		{"POST /api/v1/utils/start", "operate admin admin-token"},
		{"POST /api/v1/utils/start?dryRun=true", "operate admin admin-token"},
		{"POST /api/v1/utils/jobs/none/cancel", "operate admin admin-token"},
		{"POST /api/v1/system/start", "admin admin-token"},
		{"POST /api/v1/system/jobs/none/cancel", "admin admin-token"},
	} {
		for who, token := range tokens {
			a := g.ask(t, tt.what, "", "Authorization", "Bearer "+token)
			if may := strings.Contains(" "+tt.may+" ", " "+who+" "); may != (a.status != 403) || a.status == 401 || !may && a.code() != "FORBIDDEN" {
				t.Errorf("%s with %s: %d %s", tt.what, who, a.status, a.body)
			}
		}
		for _, header := range [][]string{nil, {"Authorization", "Bearer bft_unknown"}, {"Authorization", "Basic eDp5"}, {"Authorization", "Bearer"}, {"Authorization", "Bearer the-admin-token", "Authorization", "Bearer the-admin-token"}} {
			a := g.ask(t, tt.what, "", header...)
			if a.status != 401 || a.header.Get("WWW-Authenticate") != "Bearer" || !strings.HasPrefix(tt.what, "HEAD") && a.code() != "UNAUTHORIZED" {
				t.Errorf("%s with %q: %d %s", tt.what, header, a.status, a.body)
			}
		}
	}
}

func TestTokensExpireAndAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		first := addToken(t, file, "first", access.Read, time.Now().Add(time.Hour))
		var logged testlog.Buffer
		s, _, _ := twoScopes()
		var err error
		if s.Guard, err = jobapi.OpenTokens(file, "", slog.New(redact.Handler(slog.NewTextHandler(&logged, nil)))); err != nil {
			t.Fatal(err)
		}
		g := serve(t, s)
		try := func(token string, want int) {
			t.Helper()
			if a := g.ask(t, "GET /api/v1/system/jobs", "", "Authorization", "Bearer "+token); a.status != want {
				t.Errorf("%d, want %d: %s", a.status, want, a.body)
			}
		}
		try(first, 200)
		second := addToken(t, file, "second", access.Read, time.Time{})
		try(second, 401) // not looked at yet
		time.Sleep(2 * time.Second)
		try(second, 200)
		try(first, 200)

		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		broken := func(status int, what string, times int, how error) {
			t.Helper()
			if how != nil {
				t.Fatal(how)
			}
			for range 3 {
				time.Sleep(3 * time.Second)
				try(second, status)
			}
			if got := strings.Count(logged.String(), what); got != times || strings.Contains(logged.String(), "pasted") || !strings.Contains(logged.String(), "level=ERROR") {
				t.Errorf("said %d times that %s, want %d, and nothing quoted: %s", got, what, times, logged.String())
			}
		}
		const line, missing = "token file has invalid lines", "token file is missing or unreadable"
		broken(200, line, 1, os.WriteFile(file, append([]byte("bft_pasted_by_mistake\n"), good...), 0o600))
		broken(200, line, 2, os.WriteFile(file, append(bytes.Replace(good, []byte("first"), []byte("fi/rst"), 1), "bft_pasted_by_mistake again\n"...), 0o600))
		try(first, 401) // its line alone
		broken(401, missing, 1, os.Remove(file))
		broken(200, line, 2, os.WriteFile(file, good, 0o600))
		broken(401, missing, 2, errors.Join(os.Remove(file), os.Mkdir(file, 0o700)))
		broken(401, missing, 2, os.Remove(file)) // it is still of no use
		if got := logged.String(); !strings.Contains(got, "file="+file) || !strings.Contains(got, "line 1: want NAME") || strings.Contains(got, redact.Mark) {
			t.Errorf("it does not say what is wrong, and where: %s", got)
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := access.RevokeToken(file, "second"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		try(second, 401)
		try(first, 200)
		time.Sleep(time.Hour)
		try(first, 401)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		try(first, 401)
		if got := logged.String(); strings.Count(got, missing) != 3 || strings.Contains(got, redact.Mark) {
			t.Errorf("it does not say in the clear that the file is missing: %s", got)
		}
		g.stop()
	})
}

func TestTokenFilesAreEditedWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("# those of the web page\n\n# no line end"), 0o644); err != nil {
		t.Fatal(err)
	}
	until := time.Date(2126, 1, 31, 0, 0, 0, 0, time.UTC)
	token := addToken(t, file, "web.page-1", access.Operate, until)
	addToken(t, file, "other", access.Admin, time.Time{})
	if !regexp.MustCompile(`^bft_[A-Za-z0-9_-]{43}$`).MatchString(token) {
		t.Errorf("token %q", token)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	list, err := access.ReadTokens(file)
	if err != nil || len(list) != 2 || list[0].Name != "web.page-1" || list[0].Scope != access.Operate || !list[0].Expires.Equal(until) || list[1].Name != "other" {
		t.Errorf("%+v, %v", list, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), token) || !strings.HasPrefix(string(text), "# those of the web page\n\n# no line end\nweb.page-1 operate ") {
		t.Errorf("%s, %v", text, err)
	}
	for _, tt := range []struct {
		name  string
		scope access.Scope
		until time.Time
	}{
		{"other", access.Read, time.Time{}},
		{"", access.Read, time.Time{}},
		{"a b", access.Read, time.Time{}},
		{strings.Repeat("a", 65), access.Read, time.Time{}},
		{"new", 0, time.Time{}},
		{"new", 9, time.Time{}},
		{"new", access.Read, time.Now().Add(-time.Second)},
	} {
		if _, err := access.AddToken(file, tt.name, tt.scope, tt.until); err == nil {
			t.Errorf("%+v was added", tt)
		}
	}
	if err := access.RevokeToken(file, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("revoke none: %v", err)
	}
	if err := access.RevokeToken(file, "web.page-1"); err != nil {
		t.Error(err)
	}
	if list, err := access.ReadTokens(file); err != nil || len(list) != 1 || list[0].Name != "other" {
		t.Errorf("%+v, %v", list, err)
	}
	if rest, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(rest) != 0 {
		t.Errorf("left behind: %v", rest)
	}
}

func TestBrokenTokenFilesSayWhereAndQuoteNothing(t *testing.T) {
	_, hash := access.NewToken()
	for text, want := range map[string]string{
		"a read":                                 "line 1: want NAME",
		"#\na read " + hash + " x y":             "line 2: want NAME",
		"a/b read " + hash:                       "a name is",
		"a write " + hash:                        "the scope is",
		"a Read " + hash:                         "the scope is",
		"a read " + hash[1:]:                     "the hash is",
		"a read bft_secret":                      "the hash is",
		"a read " + hash + " tomorrow":           "the end is",
		"a read " + hash + "\n\na admin " + hash: "line 3: the name is there already",
		strings.Repeat("#", 1<<20+1):             "longer than",
		strings.Repeat(" \n", 10) + "bft_secret": "line 11",
		manyTokens(1001):                         "more than 1000",
	} {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := jobapi.OpenTokens(file, "", slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), hash) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
		if _, err := access.AddToken(file, "new", access.Read, time.Time{}); err == nil {
			t.Errorf("%.60q was added to", text)
		}
	}
	if _, err := jobapi.OpenTokens(filepath.Join(t.TempDir(), "none"), "x", slog.New(slog.DiscardHandler)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := jobapi.OpenTokens("", "", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("nothing at all opens a server")
	}
}

func manyTokens(n int) string {
	var b strings.Builder
	for i := range n {
		_, hash := access.NewToken()
		fmt.Fprintf(&b, "n%d read %s\n", i, hash)
	}
	return b.String()
}

func TestWithoutTokensOnlyTheSameMachineGetsIn(t *testing.T) {
	s, _, _ := twoScopes()
	g := serve(t, s)
	tests := []struct {
		name   string
		header []string
		host   string
		want   int
	}{
		{"a shell", nil, "", 200},
		{"by address", nil, "127.0.0.1:8080", 200},
		{"by IPv6 address", nil, "[::1]:8080", 200},
		{"a page of its own", []string{"Origin", "http://localhost", "Sec-Fetch-Site", "same-origin"}, "", 200},
		{"typed into a browser", []string{"Sec-Fetch-Site", "none"}, "", 200},
		{"another name for loopback", nil, "rebound.example", 403},
		{"a name that looks like loopback", nil, "127.0.0.1.example", 403},
		{"a proxy", []string{"X-Forwarded-For", "203.0.113.9"}, "", 403},
		{"a proxy that says proto", []string{"X-Forwarded-Proto", "https"}, "", 403},
		{"a proxy of the standard", []string{"Forwarded", "for=203.0.113.9"}, "", 403},
		{"a proxy of a network", []string{"CF-Connecting-IP", "203.0.113.9"}, "", 403},
		{"a proxy behind another", []string{"X-Original-Forwarded-For", "203.0.113.9"}, "", 403},
		{"nginx", []string{"X-Real-Ip", "203.0.113.9"}, "", 403},
		{"a proxy that is polite", []string{"Via", "1.1 cache"}, "", 403},
		{"another site's page", []string{"Sec-Fetch-Site", "cross-site"}, "", 403},
		{"a page of a sister site", []string{"Sec-Fetch-Site", "same-site"}, "", 403},
		{"an old browser", []string{"Origin", "https://evil.example"}, "", 403},
		{"a sandboxed page", []string{"Origin", "null"}, "", 403},
	}
	for _, tt := range tests {
		for _, what := range []string{"GET /api/v1/system/jobs", "POST /api/v1/system/start?dryRun=true"} {
			if a := g.ask(t, what, "", append(tt.header, "Host", tt.host)...); a.status != tt.want || tt.want == 403 && a.code() != "FORBIDDEN" {
				t.Errorf("%s: %s: %d %s", tt.name, what, a.status, a.body)
			}
		}
	}
}

func TestWithoutTokensOtherMachinesStayOutsideWhateverTheySay(t *testing.T) {
	s, _, _ := twoScopes()
	s.Log, s.Metrics, s.Guard = slog.New(slog.DiscardHandler), jobapi.NewMetrics(prometheus.NewRegistry()), jobapi.Loopback
	handler := s.Handler()
	for remote, want := range map[string]int{
		"127.0.0.1:4711": 200, "[::1]:4711": 200, "[::ffff:127.0.0.1]:4711": 200,
		"192.0.2.1:4711": 403, "[2001:db8::1]:4711": 403, "[::ffff:192.0.2.1]:4711": 403, "": 403, "@": 403,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/system/jobs", nil)
		r.Host, r.RemoteAddr = "localhost", remote
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %q: %d %s", remote, w.Code, w.Body)
		}
	}
}

func TestModeOfTheTokenFileIsJudgedWhenItIsRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing")
	}
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		token := addToken(t, file, "reader", access.Read, time.Time{})
		s, _, _ := twoScopes()
		var err error
		if s.Guard, err = jobapi.OpenTokens(file, "", slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		g := serve(t, s)
		for _, tt := range []struct {
			name   string
			change func() error
			want   int
		}{
			{"mode", func() error { return os.Chmod(file, 0o666) }, 200}, //nolint:gosec // what is refused
			{"time", func() error { return os.Chtimes(file, time.Time{}, time.Now()) }, 401},
			{"mode again", func() error { return os.Chmod(file, 0o600) }, 200}, // what was not read is tried each time
		} {
			if err := tt.change(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if a := g.ask(t, "GET /api/v1/utils/jobs", "", "Authorization", "Bearer "+token); a.status != tt.want {
				t.Errorf("after a change of its %s: %d %s, want %d", tt.name, a.status, a.body, tt.want)
			}
		}
		g.stop()
	})
}

func TestChangesAreLoggedWithTheNameOfTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		reader, writer := addToken(t, file, "reader", access.Read, time.Time{}), addToken(t, file, "ci.bot-1", access.Operate, time.Time{})
		old := addToken(t, file, "old", access.Read, time.Now().Add(time.Second))
		const admin = "admin-token-of-the-test"
		s, _, _ := twoScopes()
		var err error
		if s.Guard, err = jobapi.OpenTokens(file, admin, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if n := s.Guard.Tokens(); n != 3 {
			t.Errorf("%d tokens, want 3", n)
		}
		g := serve(t, s)
		time.Sleep(2 * time.Second)
		secret, _ := access.NewToken() // which a caller has put in the wrong place
		for _, tt := range []struct {
			what, body, token, want string // the line that comes, but for the request's id
		}{
			{"GET /api/v1/utils/jobs", "", writer, ""},
			{"POST /api/v1/utils/start?dryRun=true", "", writer, ""},
			{"POST /api/v1/utils/start", "", writer, `level=INFO msg="change asked for" route="POST /api/v1/utils/start" scope=utils operation=start token=ci.bot-1 request_id=ID status=202 job=job_new`},
			{"POST /api/v1/utils/start", `{"` + secret + `":"` + secret + `"}`, writer, `level=INFO msg="change asked for" route="POST /api/v1/utils/start" scope=utils operation=start token=ci.bot-1 request_id=ID status=400`},
			{"POST /api/v1/utils/jobs/job_u/cancel", "", writer, `level=INFO msg="change asked for" route="POST /api/v1/utils/jobs/{jobId}/cancel" scope=utils operation=cancel token=ci.bot-1 request_id=ID status=200 job=job_u`},
			{"POST /api/v1/utils/jobs/job_u/cancel", "", writer, `level=INFO msg="change asked for" route="POST /api/v1/utils/jobs/{jobId}/cancel" scope=utils operation=cancel token=ci.bot-1 request_id=ID status=409 job=job_u`},
			{"POST /api/v1/utils/jobs/" + secret + "/cancel", "", writer, `level=INFO msg="change asked for" route="POST /api/v1/utils/jobs/{jobId}/cancel" scope=utils operation=cancel token=ci.bot-1 request_id=ID status=404`},
			{"POST /api/v1/system/start", "", admin, `level=INFO msg="change asked for" route="POST /api/v1/system/start" scope=system operation=start token="admin token" request_id=ID status=202 job=job_new`},
			{"POST /api/v1/system/start", "", writer, `level=WARN msg="request denied" reason=scope remote=127.0.0.1:4711 route="POST /api/v1/system/start" request_id=ID token=ci.bot-1`},
			{"POST /api/v1/utils/start", "", reader, `level=WARN msg="request denied" reason=scope remote=127.0.0.1:4711 route="POST /api/v1/utils/start" request_id=ID token=reader`},
			{"POST /api/v1/utils/start", "", old, `level=WARN msg="request denied" reason=expired remote=127.0.0.1:4711 route="POST /api/v1/utils/start" request_id=ID token=old`},
			{"POST /api/v1/utils/start", "", secret, `level=WARN msg="request denied" reason=unknown remote=127.0.0.1:4711 route="POST /api/v1/utils/start" request_id=ID`},
		} {
			before := len(g.logged.String())
			a := g.ask(t, tt.what, tt.body, "Authorization", "Bearer "+tt.token, "X-Request-Id", "ID")
			synctest.Wait() // the line comes after the answer
			_, got, _ := strings.Cut(strings.TrimSuffix(g.logged.String()[before:], "\n"), " ")
			got = strings.ReplaceAll(got, "request_id="+a.header.Get("X-Request-Id"), "request_id=ID")
			if got != tt.want {
				t.Errorf("%s: logged\n%s, want\n%s", tt.what, got, tt.want)
			}
		}
		for _, token := range []string{reader, writer, old, admin, secret} {
			if strings.Contains(g.logged.String(), token) {
				t.Errorf("logged: %s", g.logged.String())
			}
		}
		g.stop()
	})
}

func TestAReadOnlyServerLogsNoChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := twoScopes()
		s.ReadOnly = true
		g := serve(t, s)
		g.ask(t, "POST /api/v1/system/start", "")
		synctest.Wait()
		if strings.Contains(g.logged.String(), "change") {
			t.Errorf("logged: %s", g.logged.String())
		}
		g.stop()
	})
}

func TestAClosedServerSaysSo(t *testing.T) {
	s, _, _ := twoScopes()
	s.Guard = jobapi.Closed
	g := serve(t, s)
	a := g.ask(t, "GET /api/v1/system/jobs", "", "Authorization", "Bearer x")
	if a.status != 401 || a.code() != "UNAUTHORIZED" || a.header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(a.body, "--job-tokens-file") || !strings.Contains(a.body, "--admin-token-file") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestDenialsAreCountedAndLoggedSparingly(t *testing.T) {
	s, _, _ := twoScopes()
	s.Guard = guarded(t, "x")
	g := serve(t, s)
	began := time.Now()
	for range 200 {
		g.ask(t, "GET /api/v1/system/jobs", "")
	}
	took := time.Since(began)
	most := 10 * (int(took/time.Second) + 2) // ten in each second of the clock
	if n := strings.Count(g.logged.String(), "request denied"); n == 0 || n > most {
		t.Errorf("%d lines of 200 denials in %s, want at most %d", n, took, most)
	}
	families, _ := g.registry.Gather()
	if !strings.Contains(fmt.Sprint(families), `name:"reason" value:"missing"} counter:{value:200}`) && !strings.Contains(strings.ReplaceAll(fmt.Sprint(families), "  ", " "), `value:"missing"} counter:{value:200`) {
		t.Errorf("metrics: %v", families)
	}
}

func FuzzTokensFile(f *testing.F) {
	_, hash := access.NewToken()
	f.Add("# x\na read " + hash + " 2027-01-31T00:00:00Z\n")
	f.Add("a read " + strings.ToUpper(hash) + "\r\nb admin " + hash)
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := access.ReadTokens(file)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("a long error: %v", err)
			}
			return
		}
		if _, err := access.AddToken(file, "a-name-that-is-new-here", access.Read, time.Time{}); err != nil {
			if len(list) < 1000 && len(text) < 1<<20-200 && !strings.Contains(text, "a-name-that-is-new-here") {
				t.Fatalf("cannot add to what can be read: %v", err)
			}
			return
		}
		if after, err := access.ReadTokens(file); err != nil || len(after) != len(list)+1 {
			t.Errorf("%d entries after one was added to %d: %v", len(after), len(list), err)
		}
		for _, entry := range list {
			if err := access.RevokeToken(file, entry.Name); err != nil {
				t.Errorf("revoke %q: %v", entry.Name, err)
			}
		}
		if after, err := access.ReadTokens(file); err != nil || len(after) != 1 {
			t.Errorf("%d entries after all but one were revoked: %v", len(after), err)
		}
	})
}

// TestJ13LoopbackRefusesAProxyWithoutSettings has what nginx sends with proxy_pass
// and nothing else: its own name as Host, no mark of itself, HTTP/1.0.
func TestJ13LoopbackRefusesAProxyWithoutSettings(t *testing.T) {
	s, _, _ := twoScopes()
	s.Guard = jobapi.Loopback
	g := serve(t, s)
	for proto, want := range map[string]int{"HTTP/1.0": 403, "HTTP/1.1": 200} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/api/v1/system/jobs", nil)
		r.RemoteAddr = "127.0.0.1:40000"
		r.Proto = proto
		r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(proto)
		r.Header.Set("Connection", "close")
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", proto, w.Code, w.Body, want)
		}
	}
}
