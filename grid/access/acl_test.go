package access

import (
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/grid/subject"
	tokens "github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/kinds"
)

// write writes a file of rules and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "acl.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newToken returns a token, and its hash as a file has it.
func newToken() (token, hash string) {
	token, digits := tokens.NewToken()
	return token, hashPrefix + digits
}

// grid returns rules for a team, workers and another client, and the tokens of the team and the other client.
func grid(t *testing.T) (acl *ACL, team, other string) {
	t.Helper()
	team, teamHash := newToken()
	other, otherHash := newToken()
	acl, err := Load(write(t, `# who may do what
[team-a]
tokens = ["`+teamHash+`"]
clients = ["team-a", "a-*"]
execs = ["calc.*", "gpu.>"]
max_cap = 16

[worker-1]
sans = ["Worker-1.example.org", "spiffe://fleet/worker-1"]
patterns = ["job.assign.gpu.>", "job.assign.calc"]

[worker-2]
sans = ["spiffe://fleet/worker-2"]

["on.call"]
tokens = ["`+otherHash+`"]
clients = ["other"]
execs = [">"]
`))
	if err != nil {
		t.Fatal(err)
	}
	return acl, team, other
}

func certificate(t *testing.T, uri string, dns ...string) *x509.Certificate {
	t.Helper()
	cert := &x509.Certificate{DNSNames: dns}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		cert.URIs = []*url.URL{u}
	}
	return cert
}

func TestG72PrincipalByTokenOrCertificate(t *testing.T) {
	acl, team, other := grid(t)
	tests := []struct {
		name, token string
		cert        *x509.Certificate
		want        string // of a principal; empty for none
		problem     string // a part of the error
	}{
		{"a token", team, nil, "team-a", ""},
		{"another token", other, nil, "on.call", ""},
		{"a DNS name, in any case", "", certificate(t, "", "other", "worker-1.EXAMPLE.org"), "worker-1", ""},
		{"a certificate of two principals", "", certificate(t, "spiffe://fleet/worker-2", "worker-1.example.org"), "", "matches the sans of worker-1 and of worker-2"},
		{"a URI", "", certificate(t, "spiffe://fleet/worker-1"), "worker-1", ""},
		{"a token counts more than a certificate", team, certificate(t, "", "worker-1.example.org"), "team-a", ""},
		{"nothing", "", nil, "", "a token or a certificate is needed"},
		{"an unknown token", team + "x", nil, "", "the token is unknown"},
		{"an unknown token and a known certificate", "x", certificate(t, "", "worker-1.example.org"), "", "the token is unknown"},
		{"the hash itself is no token", "sha256:" + strings.Repeat("0", 64), nil, "", "the token is unknown"},
		{"a token of a megabyte", strings.Repeat("x", 1<<20), nil, "", "1048576 bytes, at most 512"},
		{"an unknown certificate", "", certificate(t, "spiffe://fleet/worker-3", "worker-1.example.org.evil"), "", `["worker-1.example.org.evil" "spiffe://fleet/worker-3"] are in no sans`},
		{"a certificate for all machines", "", certificate(t, "", "*.example.org"), "", "are in no sans"},
		{"a common name alone", "", &x509.Certificate{}, "", "are in no sans"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := acl.Principal(tt.token, tt.cert)
			if p.Name != tt.want {
				t.Errorf("got %q, want %q", p.Name, tt.want)
			}
			if tt.problem == "" && err != nil {
				t.Error(err)
			} else if _, denied := errors.AsType[*DeniedError](err); tt.problem != "" && (!denied || !strings.Contains(err.Error(), tt.problem)) {
				t.Errorf("got %v, want %q", err, tt.problem)
			}
		})
	}
}

func TestG72DefaultIsDeny(t *testing.T) {
	acl, team, other := grid(t)
	who := func(token string, cert *x509.Certificate) Principal {
		t.Helper()
		p, err := acl.Principal(token, cert)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, w, o := who(team, nil), who("", certificate(t, "", "worker-1.example.org")), who(other, nil)
	tests := []struct {
		name string
		err  error
		want string // a part of the error; empty for none
	}{
		{"own client", second(acl.Client(a, "team-a", 1)), ""},
		{"client of an own prefix", second(acl.Client(a, "a-7", 1)), ""},
		{"another client, whose results it would get", second(acl.Client(a, "team-b", 1)), `acl.toml:2: team-a may not be the client "team-b": clients has ["team-a" "a-*"]`},
		{"client that only begins like an own one", second(acl.Client(a, "team-ab", 1)), "may not be the client"},
		{"client in other letters", second(acl.Client(a, "Team-a", 1)), "may not be the client"},
		{"a worker is no client", second(acl.Client(w, "worker-1", 1)), `worker-1 may not be the client "worker-1": clients has nothing`},
		{"another principal", second(acl.Client(o, "team-a", 1)), "may not be the client"},
		{"no one", second(acl.Client(Principal{}, "team-a", 1)), "a token or a certificate is needed"},
		{"someone who has shown nothing", second(acl.Client(Principal{Name: "team-a"}, "team-a", 1)), "has another token or certificate now"},

		{"allowed exec", acl.Submit(a, "team-a", "calc.add"), ""},
		{"exec of any depth", acl.Submit(a, "a-1", "gpu.a.b.c"), ""},
		{"exec above the pattern", acl.Submit(a, "team-a", "gpu"), `team-a may not run "gpu": execs has ["calc.*" "gpu.>"]`},
		{"exec below the pattern", acl.Submit(a, "team-a", "calc.add.x"), "may not run"},
		{"exec in other letters", acl.Submit(a, "team-a", "Calc.add"), "may not run"},
		{"allowed exec as another client", acl.Submit(a, "team-b", "calc.add"), "may not be the client"},
		{"exec of someone unknown", acl.Submit(Principal{Name: "who"}, "team-a", "calc.add"), "who is not in the file any more"},

		{"allowed pattern", acl.Worker(w, "job.assign.gpu.>"), ""},
		{"narrower pattern", acl.Worker(w, "job.assign.gpu.*.fast"), ""},
		{"wider pattern", acl.Worker(w, "job.assign.>"), `acl.toml:8: worker-1 may not be a worker of "job.assign.>"`},
		{"default pattern", acl.Worker(w, "job.assign.*"), "may not be a worker"},
		{"a client is no worker", acl.Worker(a, "job.assign.calc.add"), "patterns has nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				if tt.err != nil {
					t.Error(tt.err)
				}
			} else if _, denied := errors.AsType[*DeniedError](tt.err); !denied || !strings.Contains(tt.err.Error(), tt.want) {
				t.Errorf("got %v, want %q", tt.err, tt.want)
			}
		})
	}
	for asked, want := range map[int]int{1: 1, 16: 16, 17: 16, 1 << 30: 16} {
		if got, err := acl.Client(a, "team-a", asked); got != want || err != nil {
			t.Errorf("%d jobs asked for: %d, %v; want %d", asked, got, err, want)
		}
	}
}

func second(_ int, err error) error { return err }

func TestG72NoFileAllowsEverything(t *testing.T) {
	f, err := Open("")
	if err != nil || f.Reload() != nil {
		t.Fatal(err, f.Reload())
	}
	acl := f.ACL()
	p, err := acl.Principal("", nil)
	n, err2 := acl.Client(p, "any", 1000)
	if err := errors.Join(err, err2, acl.Submit(p, "any", "any.exec"), acl.Worker(p, ">")); err != nil || n != 1000 {
		t.Error(n, err)
	}
}

func TestG72ReloadIgnoresBrokenFile(t *testing.T) {
	token, hash := newToken()
	path := write(t, "[a]\ntokens = [\""+hash+"\"]\nclients = [\"a\"]\nexecs = [\"x\"]\n")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.ACL().Principal(token, nil)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(text string) error {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f.Reload()
	}
	if err := replace("[a]\ntokens = [\"" + hash + "\"]\nclients = [\"a\"]\nexecs = [\"x\", \"y\"]\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.ACL().Submit(p, "a", "y"); err != nil {
		t.Errorf("a peer that was connected before may not do what the new file allows: %v", err)
	}
	if err := replace("[a]\nclients = 7\n"); err == nil || f.ACL().Submit(p, "a", "y") != nil {
		t.Errorf("after a broken file: %v, %v", err, f.ACL().Submit(p, "a", "y"))
	}
	_, other := newToken()
	if err := replace("[a]\ntokens = [\"" + other + "\"]\nclients = [\"a\"]\nexecs = [\"x\", \"y\"]\n"); err != nil {
		t.Fatal(err)
	}
	if f.ACL().Submit(p, "a", "y") == nil {
		t.Error("a peer may go on with a token that was taken out of the file")
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may write was read: %v", err)
	}
}

func TestG72ParseReportsAllMistakes(t *testing.T) {
	token, hash := newToken()
	_, err := Parse("acl.toml", []byte(`clients = ["x"]
[a]
tokens = ["`+token+`"]
clients = ["a*", "b c", "*", 7]
exec = ["x"]
execs = "calc"
max_cap = 0
[a]
max_cap = 3
[b.c]
[["d"]]
["x y"]
[e]
tokens = ["`+hash+`"]
max_cap = "1"
patterns = ["job.assign.gpu.*x", "job.submit.x", "job..x"]
max_cap = 1
[f]
tokens = ["`+hash+`"]
sans = ["*.example.org", "w.example.org", ":x", "W.example.org"]
execs = ["x"]
[g]
clients = []
`))
	e, ok := errors.AsType[*kinds.FileError](err)
	if !ok {
		t.Fatal(err)
	}
	if strings.Contains(e.Error(), token) {
		t.Errorf("the token is shown: %v", e)
	}
	want := []string{
		`acl.toml:1:1: clients is above the first principal: write it below a line such as [team-a]`,
		`acl.toml:3:11: a.tokens has a text that is no hash: want sha256: and 64 hexadecimal digits, never the token itself`,
		`acl.toml:4:12: a.clients has "a*": want - or _ before the *, because a* matches other people's clients, too`,
		`acl.toml:4:18: a.clients has "b c": want the ClientId of a client, or the beginning of many and *, such as team-a-*`,
		`acl.toml:4:30: a.clients has something that is no text: want it between quotes`,
		`acl.toml:5:1: a.exec is no key of a principal: want tokens, sans, clients, execs, patterns, max_cap`,
		`acl.toml:6:9: a.execs is no list: want ["…", "…"]`,
		`acl.toml:7:11: a.max_cap is "0": want a whole number from 1 to 1000000`,
		`acl.toml:8:2: a is given twice: first in line 2`,
		`acl.toml:10:2: b.c has 2 names: a principal has one, and one with dots is written ["b.c"]`,
		`acl.toml:11:3: d is a list of tables: write [d] for one principal`,
		`acl.toml:12:2: x y is no name of a principal: a name is 1 to 64 of A-Z a-z 0-9 . _ -`,
		`acl.toml:15:11: e.max_cap is "1": want a whole number from 1 to 1000000`,
		`acl.toml:16:13: e.patterns has a bad pattern "job.assign.gpu.*x" has a wildcard within a token: * and > are whole tokens`,
		`acl.toml:16:34: e.patterns has "job.submit.x", which matches no job: want a pattern as workers have it, such as job.assign.*`,
		`acl.toml:16:50: e.patterns has a bad pattern "job..x" has an empty token; tokens have one dot between them`,
		`acl.toml:17:1: e.max_cap is given twice: first in line 15`,
		`acl.toml:18:2: f has execs and no clients to submit them as: want clients = ["*"] for all`,
		`acl.toml:19:11: f.tokens has a token that is there already: first in line 14`,
		`acl.toml:20:9: f.sans has "*.example.org": is no DNS name and no URI: want one such as worker-1.example.org`,
		`acl.toml:20:43: f.sans has ":x": is no URI, such as spiffe://fleet/worker-1`,
		`acl.toml:20:49: f.sans has a name of a certificate that is there already: first in line 20`,
		`acl.toml:22:2: g has no tokens and no sans: no peer could be identified as it`,
		`acl.toml:23:1: g.clients is empty: leave it out, or write what is allowed`,
	}
	if diff := cmp.Diff(want, strings.Split(e.Error(), "\n")); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
	if _, err := Parse("acl.toml", []byte("[a]\ntokens = [\n")); err == nil || !strings.HasPrefix(err.Error(), "acl.toml:2:11: the file is not TOML: ") {
		t.Errorf("a file that is no TOML: %v", err)
	}
}

func TestG72WorkerPatternMustBeCovered(t *testing.T) {
	tests := []struct {
		wider, narrower string
		want            bool
	}{
		{"a.b", "a.b", true},
		{"a.*", "a.b", true},
		{"a.*", "a.*", true},
		{"a.b", "a.*", false},
		{"a.*", "a.>", false},
		{"a.>", "a.*", true},
		{"a.>", "a.>", true},
		{"a.>", "a", false},
		{"a.>", "a.*.>", true},
		{"a.*.>", "a.>", false},
		{"a.*.>", "a.b.>", true},
		{"a.*.>", "a.b", false},
		{">", "a.*.b", true},
		{"*", ">", false},
		{"a.*", "a.b.c", false},
		{"a.*.c", "a.*", false},
		{"*.b", "a.*", false},
		{"a", "A", false},
	}
	// all subjects of at most three parts that could tell two of the patterns apart
	var subjects []string
	parts := []string{"a", "b", "c", "A", "x"}
	for _, p := range parts {
		subjects = append(subjects, p)
		for _, q := range parts {
			subjects = append(subjects, p+"."+q)
			for _, r := range parts {
				subjects = append(subjects, p+"."+q+"."+r)
			}
		}
	}
	for _, tt := range tests {
		if got := covers(tt.wider, tt.narrower); got != tt.want {
			t.Errorf("%q covers %q: %t, want %t", tt.wider, tt.narrower, got, tt.want)
		}
		subset := true
		for _, s := range subjects {
			subset = subset && (!subject.Match(tt.narrower, s) || subject.Match(tt.wider, s))
		}
		if subset != tt.want {
			t.Errorf("%q covers %q is %t, and by their subjects it is %t", tt.wider, tt.narrower, tt.want, subset)
		}
	}
}

func FuzzG72Parse(f *testing.F) {
	f.Add([]byte("[a]\ntokens = [\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"]\nclients = [\"a\", \"b-*\"]\nexecs = [\"calc.>\"]\nmax_cap = 7"))
	f.Add([]byte("[a]\nsans = ['w.example.org', \"spiffe://x/y\"]\npatterns=[\"job.assign.*\"]\nmax_cap=1\n[b]\nsans=['c']"))
	f.Add([]byte("a.b = {c = [1, {}]}\n[[x]]\n[\"\"]\nq = 1979-05-27"))
	f.Fuzz(func(t *testing.T, data []byte) {
		acl, err := Parse("acl.toml", data)
		if (acl == nil) == (err == nil) {
			t.Fatalf("rules %v and error %v", acl, err)
		}
		if err != nil {
			return
		}
		for _, r := range acl.rules {
			if len(r.tokens)+len(r.sans) == 0 || (len(r.clients) == 0) != (len(r.execs) == 0) {
				t.Errorf("a principal is not whole: %+v", r)
			}
		}
		if _, err := acl.Client(Principal{}, "a", 1); err == nil {
			t.Error("a peer that has shown nothing may be a client")
		}
	})
}
