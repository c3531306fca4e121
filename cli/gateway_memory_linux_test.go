package cli

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// TestHostileResultsTakeLittleMemory has sixteen workers send the largest results
// there can be, all at once: of millions of keys, and of one text.
func TestHostileResultsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "it takes several times the memory")
	const most = 300 << 20
	var keys strings.Builder
	keys.WriteString(`{"lease_id":"x","summary_text":"","freqs_csv":"","result":{`)
	for i := 0; keys.Len() < 31<<20; i++ {
		fmt.Fprintf(&keys, `"%x":1,`, i)
	}
	keys.WriteString(`"":1}}`)
	// One escape makes the decoder copy the whole text twice.
	text := `{"lease_id":"x","freqs_csv":"","result":{},"summary_text":"\n` + strings.Repeat("x", 31<<20) + `"}`
	object := `{"lease_id":"x","freqs_csv":"","summary_text":"","result":{"":"` + strings.Repeat("x", 31<<20) + `"}}`
	for _, tt := range []struct {
		name, body string
		want       []int
	}{
		{"keys", keys.String(), []int{http.StatusRequestEntityTooLarge}},
		{"text", text, []int{http.StatusNotFound, http.StatusServiceUnavailable}},
		{"object", object, []int{http.StatusNotFound, http.StatusServiceUnavailable}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newTestGateway(t)
			addr := freeAddr(t)
			p := g.startGateway(addr)
			before := peakMemory(t, p.Process.Pid)
			statuses := make([]int, 16)
			var sending sync.WaitGroup
			for i := range statuses {
				token := g.tokenOf(g.enrolled(fmt.Sprint("worker-", i)))
				sending.Go(func() {
					r, err := g.request(http.MethodPost, "http://"+addr+"/calc/zpe/compute/jobs/x/result", token, tt.body)
					if err != nil && tt.want[0] != http.StatusRequestEntityTooLarge { // that one may hang up while we still send
						t.Error(err)
					}
					statuses[i] = r.status
				})
			}
			sending.Wait()
			peak := peakMemory(t, p.Process.Pid)
			t.Logf("answers %v; %d MiB at most, %d MiB before", statuses, peak>>20, before>>20)
			if peak > most {
				t.Errorf("the gateway took %d MiB, want %d at most", peak>>20, most>>20)
			}
			for _, status := range statuses {
				if status != 0 && !strings.Contains(fmt.Sprint(tt.want), strconv.Itoa(status)) {
					t.Errorf("answered %d, want one of %v", status, tt.want)
				}
			}
		})
	}
}

// peakMemory returns the most memory that a process has had at a time, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM in the status of the process")
	return 0
}
