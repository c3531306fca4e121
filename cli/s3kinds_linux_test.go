package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// TestF47AnExampleRunsWithItsFilesInS3 through a gateway with an agent, and in a fleet.
func TestF47AnExampleRunsWithItsFilesInS3(t *testing.T) {
	examples(t)
	t.Parallel()
	server := s3test.New(t, "fleet", "shared")
	store := s3.New(s3test.Client(t, server), "fleet", "shared")
	file := someExamples(t, "thumbnail")
	thumbnail := theExamples[0]
	check := func(t *testing.T, png string) {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, thumbnail.artifact), []byte(png), 0o600); err != nil {
			t.Fatal(err)
		}
		thumbnail.check(t, dir)
	}

	t.Run("through a gateway", func(t *testing.T) {
		g := newTestGateway(t)
		addr := freeAddr(t)
		url := "http://" + addr
		g.startGateway(addr, append(g.withKinds(file, t.TempDir()), withS3(server)...)...)
		g.startAgent("a", url, g.enrolled("a"), "PROCESSOR=none", "KINDS_FILE="+file)
		id := g.submitKind(url, "thumbnail", map[string]any{"input": g.upload(url, "thumbnail", thumbnail.file)})
		g.untilFinished(url, "thumbnail", id)
		r, err := g.request(http.MethodGet, url+"/calc/thumbnail/jobs/"+id+"/artifacts/"+thumbnail.artifact, "", nil)
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("answered %d %s, %v", r.status, r.body, err)
		}
		check(t, string(r.body))
		if !slices.ContainsFunc(namesIn(t, store), func(name string) bool {
			return strings.HasPrefix(name, "gateway/artifacts/"+id+"/") && strings.HasSuffix(name, "/"+thumbnail.artifact)
		}) {
			t.Errorf("the bucket has no artifact of job %s: %q", id, namesIn(t, store))
		}
	})

	t.Run("in a fleet", func(t *testing.T) {
		f := newTestFleet(t)
		settings := append(withS3(server), "KINDS_FILE="+file)
		f.start(settings...)
		input, err := filepath.Abs(thumbnail.file) // commands run in another directory
		if err != nil {
			t.Fatal(err)
		}
		out := t.TempDir()
		code, stdout, stderr := output(t, batchfleet(t, f.environment(settings...), "submit", "--kind", "thumbnail", "--wait", "-o", out, input))
		if code != 0 {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		thumbnail.check(t, out)
		names := slices.DeleteFunc(namesIn(t, store), func(name string) bool {
			return !strings.HasPrefix(name, "results/") || !strings.HasSuffix(name, "/artifacts/"+thumbnail.artifact)
		})
		if len(names) != 1 {
			t.Fatalf("the bucket has the artifacts %q, want one", names)
		}
		check(t, storagetest.GetString(t, store, names[0]))
	})
}
