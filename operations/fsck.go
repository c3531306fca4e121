package operations

import (
	"context"
	"fmt"
	"sync"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/repair"
	"github.com/batchfleet/batchfleet/redisdb"
)

// maxFindings are shown in the result; the counts are of all.
const maxFindings = 100

// fsck proves that every job is where it should be. A job that is not there is
// a finding in the result, and no failure.
type fsck struct {
	jobapi.Options
	Repair bool `json:"repair"`
	d      Deps

	mu    sync.Mutex
	found audits
}

// audits is the result.
type audits struct {
	Gateway  *audit    `json:"gateway"` // null where there is none
	Fleet    *audit    `json:"fleet"`
	Findings []finding `json:"findings"` // the first of both
}

// audit is what a check of all jobs has seen, as the result shows it.
type audit struct {
	Jobs      map[string]int `json:"jobs"`      // by their status
	Counts    map[string]int `json:"counts"`    // findings by their kind
	Left      int            `json:"left"`      // findings that are neither harmless nor repaired
	Unchecked int            `json:"unchecked"` // suspects left for another run
}

// finding is something that is not as it should be.
type finding struct {
	Where  string `json:"where"` // gateway or fleet
	Kind   string `json:"kind"`
	JobID  string `json:"jobId"`
	Detail string `json:"detail"`
	Done   string `json:"done"` // how it was repaired; empty if it was not
}

// Check implements [engine.Request].
func (o *fsck) Check() error { return nil }

// Echo implements [engine.Request].
func (o *fsck) Echo() any {
	return struct {
		jobapi.Options
		Repair bool `json:"repair"`
	}{o.Options, o.Repair}
}

// Steps implements [engine.Request].
func (o *fsck) Steps() []engine.Step {
	also := "; repair nothing"
	if o.Repair {
		also = ", and repair what is wrong"
	}
	gateway := engine.Step{Name: "gateway", Description: "look at all jobs of the gateway" + also, Run: o.gateway}
	fleet := engine.Step{Name: "fleet", Description: "look at all jobs of the fleet" + also, Run: o.fleet}
	if o.d.Queue == nil {
		gateway.AlreadyDone = never(noGateway)
	}
	if o.d.Status == nil {
		fleet.AlreadyDone = never(noFleet)
	}
	return []engine.Step{gateway, fleet}
}

func (o *fsck) gateway(ctx context.Context, r engine.Run) (string, error) {
	report, err := o.d.Queue.Fsck(ctx, o.Repair)
	if err != nil {
		return "", err
	}
	return o.tell(r, "gateway", report.Audit, &o.found.Gateway), nil
}

func (o *fsck) fleet(ctx context.Context, r engine.Run) (string, error) {
	var report redisdb.Audit
	var err error
	if o.d.Storage == nil || o.d.Publish == nil {
		report, err = o.d.Status.Fsck(ctx, o.Repair)
	} else {
		r := repair.Repair{Status: o.d.Status, Store: o.d.Storage, Publish: o.d.Publish.Publish}
		report, err = r.Fsck(ctx, o.Repair)
	}
	return o.tell(r, "fleet", report, &o.found.Fleet), err
}

// tell adds an audit to the result and says in a line what it has seen.
func (o *fsck) tell(r engine.Run, where string, a redisdb.Audit, into **audit) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	*into = &audit{a.Jobs, a.Counts, a.Left, a.Unchecked}
	if o.found.Findings == nil {
		o.found.Findings = []finding{}
	}
	for _, f := range a.Findings {
		r.Logf("%s: job %s: %s: %s: %s", where, f.Job, f.Kind, f.Detail, f.Done)
		if len(o.found.Findings) < maxFindings {
			o.found.Findings = append(o.found.Findings, finding{where, f.Kind, string(f.Job), f.Detail, f.Done})
		}
	}
	r.Result(o.found)
	return summary(a)
}

// summary says in words how many there are.
func summary(a redisdb.Audit) string {
	total, all := 0, 0
	for _, n := range a.Jobs {
		total += n
	}
	for _, n := range a.Counts {
		all += n
	}
	said := jobs.Count(total, "job") + ", no findings"
	if all > 0 {
		said = fmt.Sprintf("%s, %s: %s", jobs.Count(total, "job"), jobs.Count(all, "finding"),
			listed(count{all - a.Harmless - a.Left, "repaired"}, count{a.Harmless, "harmless"}, count{a.Left, "left"}))
	}
	if a.Unchecked > 0 {
		said += fmt.Sprintf("; %s not looked at: run it again", jobs.Count(a.Unchecked, "suspect"))
	}
	return said
}
