package dashboardtest

import (
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// Overview answers GET /api/v1/overview, until there is the real one.
func (f *Fleet) Overview() jobapi.Route {
	return jobapi.Route{Pattern: "GET /api/v1/overview", Need: access.Read, Handle: func(w http.ResponseWriter, r *http.Request) error {
		c, _ := f.Count(r.Context())
		s := jobapi.ScopeOverview{Name: f.Scope, States: map[string]int{}, DeadLetters: &c.DeadLetters}
		for state, n := range c.States {
			s.States[state.String()] = n
		}
		for _, k := range c.Kinds {
			o := jobapi.KindOverview{Kind: k.Kind, Queued: k.Queued, Running: k.Running, Oldest: jobapi.At(k.Oldest), Workers: 2, Slots: 8, Wait: &jobapi.Quantiles{P50: 900, P95: 4200, P99: 9000, N: 200}, Run: &jobapi.Quantiles{P50: 12000, P95: 63000, P99: 90000, N: 200}}
			o.Paused = f.paused[k.Kind]
			s.Kinds = append(s.Kinds, o)
		}
		now := time.Now().Truncate(10 * time.Second)
		for i := range 30 {
			s.Recent = append(s.Recent, jobapi.Point{At: jobapi.At(now.Add(time.Duration(i-30) * 10 * time.Second)), In: int64(8 + i*7%11), Succeeded: int64(6 + i*5%9), Failed: int64(i % 7 / 5)})
		}
		for _, h := range c.Hours {
			s.Day = append(s.Day, jobapi.Point{At: jobapi.At(h.Start), In: h.In, Succeeded: h.Succeeded, Failed: h.Failed, Canceled: h.Canceled})
		}
		o := jobapi.Overview{At: jobapi.At(time.Now()), Scopes: []jobapi.ScopeOverview{s}, Workers: jobapi.WorkerCounts{Working: 2, Idle: 1, Draining: 1, Silent: 1, Slots: 24, InHand: 9}}
		groups := map[string]int{}
		for i := range f.all {
			j := &f.all[i]
			if j.Error == nil {
				continue
			}
			fp := jobapi.Fingerprint(j.Type, j.Error)
			if _, ok := groups[fp]; !ok {
				groups[fp] = len(o.Errors)
				o.Errors = append(o.Errors, jobapi.ErrorGroup{Fingerprint: fp, Scope: f.Scope, Type: j.Type, Code: j.Error.Code, JobID: j.ID})
			}
			g := &o.Errors[groups[fp]]
			g.Count, g.Message, g.Newest = g.Count+1, j.Error.Message, j.FinishedAt
		}
		o.Warnings = []jobapi.Warning{
			{Code: "NO_WORKER", Message: "41 jobs of kind render wait, and no live worker runs it", Scope: f.Scope, Kind: "render", Since: jobapi.At(time.Now().Add(-7 * time.Minute))},
			{Code: "SILENT_WORKER", Message: "Nothing was heard of worker gpu-3", Scope: f.Scope, Worker: "gpu-3", Since: jobapi.At(time.Now().Add(-95 * time.Second))},
		}
		text, err := httpd.EncodeJSON(o)
		if err == nil {
			httpd.WriteJSON(w, http.StatusOK, text)
		}
		return err
	}}
}
