package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// A queued job may cost Redis this much beside its payload.
const maxBytesPerJob = 700

func TestZ11QueuedJobTakesLittleMemory(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "it is about the memory of Redis")
	testrun.Long(t, "it takes much CPU")
	r := newRig(t)
	const n = 20_000
	payload := []byte(strings.Repeat("x", 256))
	used := func() int {
		for line := range strings.SplitSeq(r.do("INFO", "memory"), "\r\n") {
			if v, ok := strings.CutPrefix(line, "used_memory:"); ok {
				return must(strconv.Atoi(v))(r)
			}
		}
		r.Fatal("INFO says nothing of used_memory")
		return 0
	}
	before := used()
	for range n {
		must(r.Submit(r.ctx(), jobs.ID(ulid.Make().String()), payload, ""))(r)
	}
	per := (used()-before)/n - len(payload)
	t.Log(fmt.Sprint(per, " bytes a job"))
	if per > maxBytesPerJob {
		r.Errorf("a queued job takes %d bytes beside its payload, at most %d are allowed", per, maxBytesPerJob)
	}
}
