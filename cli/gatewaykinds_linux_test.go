package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// TestK17ALargeArtifactIsResumedInLittleMemory sends 2 GiB, kills the worker at a quarter and the
// gateway at half of it, and looks what both took.
func TestK17ALargeArtifactIsResumedInLittleMemory(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "it sends 2 GiB")
	const size, most = blobBytes, 128 << 20
	g := newTestGateway(t)
	dir := testrun.MemoryDir(t)
	addr := freeAddr(t)
	url := "http://" + addr
	p := g.startGateway(addr, append(g.withKinds("", dir), withBlob+"=1")...)
	token := g.enrolled("a")
	start := func() *process {
		return g.startAgent("a", url, token, withBlob+"=1", "AGENT_DIR="+filepath.Join(dir, "agent"))
	}
	a := start()
	id := g.submitKind(url, "blob", map[string]any{})
	untilSpooled := func(least int64) {
		t.Helper()
		until(t, 5*time.Minute, fmt.Sprintf("%d MiB have arrived", least>>20), func() bool {
			n := int64(0)
			parts, _ := filepath.Glob(filepath.Join(dir, "spool", "*"))
			for _, part := range parts {
				if info, err := os.Stat(part); err == nil {
					n += info.Size()
				}
			}
			return n >= least
		})
	}
	untilSpooled(size / 4)
	killedAgent := peakMemory(t, a.Process.Pid)
	a.kill()
	a = start()
	a.untilLogged("going on with an artifact where it was left")
	untilSpooled(size / 2)
	killedGateway := peakMemory(t, p.Process.Pid)
	p.kill()
	p = g.startGateway(addr, append(g.withKinds("", dir), withBlob+"=1")...)
	g.untilFinished(url, "blob", id)

	var list wire.ArtifactsResponse
	g.call(http.MethodGet, url+"/calc/blob/jobs/"+id+"/artifacts", "", nil, &list)
	resp, err := http.Get(url + "/calc/blob/jobs/" + id + "/artifacts/blob.bin") //nolint:noctx // the test ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := sumOf(resp.Body); len(list.Artifacts) != 1 || list.Artifacts[0].Size != size || list.Artifacts[0].SHA256 != got {
		t.Errorf("listed %+v, and it came down with sum %s", list, got)
	}
	for name, peak := range map[string]int{
		"worker": peakMemory(t, a.Process.Pid), "killed worker": killedAgent, "gateway": peakMemory(t, p.Process.Pid), "killed gateway": killedGateway,
	} {
		t.Logf("the %s took %d MiB at most", name, peak>>20)
		if peak > most {
			t.Errorf("the %s took %d MiB, want %d at most", name, peak>>20, most>>20)
		}
	}
	if n := strings.Count(a.log.String(), "going on with an artifact where it was left"); n < 1 {
		t.Error("the worker began again from the start")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "spool", "*")); len(left) > 0 {
		t.Errorf("the spool still has %v", left)
	}
}
