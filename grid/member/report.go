package member

import (
	"encoding/json"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// maxAhead is how many bytes may wait to be written to a leader before reports are dropped: results must not wait for them.
const maxAhead = 1 << 20

// note adds to what a leader is to be told of a job. Of more lines than a Report can have the newest count. Member.mu is held.
func (r *run) note(p *jobs.Progress, lines []string) {
	if p != nil && p.Message != "" {
		r.report.Message = jobs.Clip(p.Message, wire.MaxReportMessage, "")
	}
	r.report.Lines = append(r.report.Lines, lines...)
	if over := len(r.report.Lines) - wire.MaxReportLines; over > 0 {
		r.report.Lines = append([]string(nil), r.report.Lines[over:]...)
	}
}

// sendReport tells the leaders what was noted, and forgets it: they keep the newest, in memory alone. Member.mu is held.
func (r *run) sendReport() {
	info := r.report
	r.report = wire.ReportInfo{}
	if info.Message == "" && len(info.Lines) == 0 {
		return
	}
	r.tell(info, maxAhead)
}

// tell sends a report to the leaders, but those to whom more than most bytes wait to be written. Member.mu is held.
func (r *run) tell(info wire.ReportInfo, most int) {
	payload, err := json.Marshal(info)
	if err != nil {
		return // texts can always be encoded
	}
	for _, a := range r.attempts {
		if s := a.peer.session; s != nil && s.has(wire.FeatureReport) && !a.lost && s.Unsent() < most {
			_ = s.Send(wire.Frame{Type: wire.Report, MsgID: a.id, CorrID: r.id, Payload: payload}) // otherwise the connection has ended
		}
	}
}
