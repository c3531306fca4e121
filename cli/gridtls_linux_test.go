package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// authority writes ca.pem, and returns what writes NAME.pem and NAME.key with a certificate of it for a name.
func (g *testGrid) authority() (issue func(name string)) {
	g.t.Helper()
	make := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
		g.t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			g.t.Fatal(err)
		}
		if parent == nil {
			parent, by = template, key
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			g.t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			g.t.Fatal(err)
		}
		return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	ca, caKey, text := make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	g.write("ca.pem", string(text))
	return func(name string) {
		g.t.Helper()
		_, key, text := make(&x509.Certificate{
			DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, ca, caKey)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			g.t.Fatal(err)
		}
		g.write(name+".pem", string(text))
		g.write(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	}
}

func (g *testGrid) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(g.path(name), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func TestG71RemoteListenersNeedTLS(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.run(2, "--addr: .*other machines could connect without TLS.*--insecure", "leader", "0", "--addr", "0.0.0.0")
	open := g.leader("0", "--addr", "0.0.0.0", "--insecure")
	if log := open.log.String(); !strings.Contains(log, "not encrypted") || !strings.Contains(log, "everybody who reaches this port") {
		t.Errorf("a leader that everybody may use does not say so:\n%s", log)
	}
	open.stop()

	issue := g.authority()
	for _, name := range []string{"leader.test", "worker.test", "client.test"} {
		issue(name)
	}
	l := g.leader("0", "--tls-cert", "leader.test.pem", "--tls-key", "leader.test.key", "--client-ca", "ca.pem")
	g.worker(l.host, l.port, "--ca-file", "ca.pem", "--tls-cert", "worker.test.pem", "--tls-key", "worker.test.key")
	mine := []string{"--ca-file", "ca.pem", "--tls-cert", "client.test.pem", "--tls-key", "client.test.key"}
	g.run(0, threeResults, append([]string{"client", l.host, l.port, "clientA"}, mine...)...)
	submit := []string{"submit", "--leader", l.addr, "--client", "clientA", "--queue-timeout", "2s", "calcA"}
	g.run(0, "^[0-9a-f-]{36}\n$", append(submit, mine...)...)
	g.run(3, "certificate", append(submit, "--ca-file", "ca.pem")...) // it shows none
	g.run(3, "unknown authority", append(submit, "--tls")...)
	g.run(3, "no connection to leader", submit...) // it speaks no TLS
	g.run(3, "leader.test", append(append(submit, mine...), "--tls-server-name", "other.test")...)
}

func TestG72ACLFile(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("secret", "echo secret")
	const ofA, ofWorker, ofOther = "token-of-team-a-0123456789abcdef", "token-of-worker-0123456789abcdef", "token-of-others-0123456789abcdef"
	rule := func(name, token, rest string) string {
		return fmt.Sprintf("[%s]\ntokens = [\"sha256:%x\"]\n%s\n", name, sha256.Sum256([]byte(token)), rest)
	}
	a := rule("team-a", ofA, "clients = [\"team-a\"]\nexecs = [\"calcA\"]\nmax_cap = 2")
	w := rule("workers", ofWorker, `patterns = ["job.assign.>"]`)
	g.write("acl.toml", a+w)
	for name, token := range map[string]string{"a.token": ofA, "worker.token": ofWorker, "other.token": ofOther} {
		g.write(name, token+"\n")
	}
	l := g.leader("0", "--acl", "acl.toml")
	worker := g.worker(l.host, l.port, "--token-file", "worker.token")
	submit := func(code int, want string, args ...string) {
		t.Helper()
		g.run(code, want, append([]string{"submit", "--leader", l.addr, "--queue-timeout", "5s", "--wait"}, args...)...)
	}
	submit(0, "the sum of 1 numbers is 4", "--client", "team-a", "--token-file", "a.token", "calcA", "4")
	submit(2, "FORBIDDEN.*may not run", "--client", "team-a", "--token-file", "a.token", "secret")
	submit(2, "may not be the client", "--client", "team-b", "--token-file", "a.token", "calcA")
	submit(2, "token is unknown", "--client", "team-a", "--token-file", "other.token", "calcA")
	submit(2, "a token or a certificate is needed", "--client", "team-a", "calcA")
	g.run(1, "it refuses this worker: FORBIDDEN: .*may not be a worker", "doctor", "worker", l.host, l.port, "--exe-dir", "exe", "--jobs-dir", "jobs", "--token-file", "a.token")

	g.write("acl.toml", w+rule("others", ofOther, "clients = [\"team-a\"]\nexecs = [\">\"]"))
	if err := l.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	l.untilLogged("certificates and rules were read again")
	submit(2, "token is unknown", "--client", "team-a", "--token-file", "a.token", "calcA")
	submit(0, "^secret\n$", "--client", "team-a", "--token-file", "other.token", "secret")
	for _, text := range []string{l.log.String(), worker.log.String()} {
		for _, token := range []string{ofA, ofWorker, ofOther} {
			if strings.Contains(text, token) {
				t.Errorf("a token is in a log:\n%s", text)
			}
		}
	}
}

func TestG69Doctor(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	l := g.leader("0", "--dir", "kept")
	g.run(0, `ok +flags.*ok +programs exe: 1 program\n.*ok +jobs +jobs: .* programs run there.*ok +cache .*there is none.*ok +leader .*it welcomes this worker; it keeps jobs and results on disk`,
		"doctor", "worker", l.host, l.port, "--exe-dir", "exe", "--jobs-dir", "jobs", "--cache-dir", "cache")
	g.write("exe/data.exe", "no program")
	g.env = []string{"WORKER_MAX_PAR=none"}
	out := g.run(1, "FAIL +flags.*WORKER_MAX_PAR.*warn +programs.*data.exe is no file that may be executed", "doctor", "worker", l.host, l.port, "--exe-dir", "exe", "--jobs-dir", "jobs", "--dir", "exe/data.exe")
	g.env = nil
	if strings.Count(out, "FAIL ") != 2 || strings.Count(out, "what to do: ") != 3 {
		t.Errorf("doctor finds other mistakes, or does not say what to do:\n%s", out)
	}
	g.run(1, "FAIL +programs .*it has no program EXEC.exe.*1 of 6 checks failed", "doctor", "worker", l.host, l.port, "--exe-dir", "kept", "--jobs-dir", "jobs")
	g.run(1, "FAIL +leader +127.0.0.1:1: .*refused", "doctor", "worker", "127.0.0.1", "1", "--exe-dir", "exe", "--jobs-dir", "jobs")
	g.run(1, "FAIL +listen .*in use.*ok +disk +new", "doctor", "leader", l.port, "--http", "", "--dir", "new", "--min-free-bytes", "1")
	g.run(1, "FAIL +flags .*--job-tokens-file: ", "doctor", "leader", "0", "--job-tokens-file", "none", "--dir", "new")
	if taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", gridWeb); err == nil { // else something else listens there
		defer taken.Close()
	}
	g.run(0, "ok +http .*in use, so the leader takes another port", "doctor", "leader", "0", "--dir", "new", "--min-free-bytes", "1")
	g.run(1, "FAIL +http .*in use", "doctor", "leader", "0", "--http", gridWeb, "--dir", "new", "--min-free-bytes", "1")
	g.run(1, "FAIL +disk .*are wanted", "doctor", "leader", "0", "--http", "", "--dir", "new", "--min-free-bytes", "1000000000000000")
	for _, name := range []string{"new", "jobs", "grid_worker"} {
		if _, err := os.Stat(g.path(name)); err == nil {
			t.Errorf("doctor has made %s", name)
		}
	}
	if w := g.worker(l.host, l.port, "--exe-dir", "none"); !strings.Contains(w.log.String(), "jobs for programs will be rejected") {
		t.Errorf("a worker without programs does not warn:\n%s", w.log)
	}
}

func TestG69DevRunsAGrid(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	cmd := batchfleet(t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir}, "dev", "--grid")
	cmd.Dir = g.dir
	dev := launch(t, cmd)
	until(t, time.Minute, "three results are shown", func() bool { return strings.Count(dev.log.String(), " OK stdout=") == 3 })
	typed := 0
	for line := range strings.Lines(dev.log.String()) {
		words := strings.Fields(line)
		at := slices.Index(words, "grid") // behind the name of the program, which may be go run ./cmd/batchfleet
		if at < 1 || !strings.HasPrefix(line, "  ") {
			continue
		}
		typed++
		g.run(0, "numbers|calcA|OK|idle", words[at+1:]...)
	}
	if typed != 4 {
		t.Errorf("dev says %d commands to type, want 4:\n%s", typed, dev.log)
	}
	if code, _ := dev.terminate(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, dev.log)
	}
	if code, out, errs := output(t, batchfleet(t, nil, "dev", "--grid", "a.pdf")); code != 2 {
		t.Errorf("with a file: exit code %d\n%s%s", code, out, errs)
	}
}
