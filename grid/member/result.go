package member

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// again reports whether the result is kept in case the job is assigned again: the job has succeeded, or its program has failed and RetryOn does not ask for
// another attempt. After other failures another attempt may succeed.
func (r *run) again(o jobs.Outcome) bool {
	if o.State == jobs.Succeeded {
		return true
	}
	q, err := r.request()
	return err == nil && o.State == jobs.Failed && strings.EqualFold(o.Code, wire.ReasonExit) && !slices.Contains(q.RetryOn, wire.ReasonExit)
}

// reasons maps the codes of failures to reasons; other codes are [wire.ReasonError].
var reasons = map[string]string{
	"JOB_TIMEOUT": wire.ReasonTimeout, "JOB_STALLED": wire.ReasonTimeout,
	"EXIT": wire.ReasonExit, "TIMEOUT": wire.ReasonTimeout, "REJECTED": wire.ReasonRejected, "OOM": wire.ReasonOOM,
	"OUTPUT_LIMIT": wire.ReasonOutputLimit, "NO_SPACE": wire.ReasonNoSpace, "EXPIRED": wire.ReasonExpired,
}

// resultOf returns the JobResult of an outcome: the handler's, if there is one. It fits into its frames.
func (m *Member) resultOf(r *run, o jobs.Outcome, detail string) []byte {
	switch {
	case o.State == jobs.Succeeded && o.Result.Text != "":
		return r.fit([]byte(o.Result.Text))
	case o.State == jobs.Succeeded:
		return r.result(wire.JobResult{Status: wire.OK, Worker: m.Host})
	case detail != "":
		return r.fit([]byte(detail))
	case o.State == jobs.Canceled:
		return canceledResult(r)
	}
	reason := cmp.Or(reasons[strings.ToUpper(o.Code)], wire.ReasonError)
	why := cmp.Or(o.Reason, "the job has failed")
	return r.result(wire.JobResult{Status: wire.Failed, Reason: reason, Message: why, Stderr: why, Worker: m.Host})
}

// canceledResult returns the result of a canceled job whose handler has made none.
func canceledResult(r *run) []byte {
	return r.result(wire.JobResult{Status: wire.Failed, Reason: wire.ReasonCanceled, Message: "the job was canceled"})
}

// maxReason is the limit of the reason of a failure, in bytes.
const maxReason = 64 << 10

// result completes a result that is made here, and returns its JSON.
func (r *run) result(made wire.JobResult) []byte {
	q, _ := r.request() // an invalid request has this error as its result's message
	made.JobID, made.ClientID, made.ExecName, made.Index, made.ArrayID = r.id, q.ClientID, q.ExecName, q.Index, q.ArrayID
	made.DurationMs = time.Since(r.began).Milliseconds()
	made.Message, made.Stderr = jobs.Clip(made.Message, maxReason, " …"), jobs.Clip(made.Stderr, maxReason, " …")
	return encode(made)
}

func encode(result wire.JobResult) []byte {
	text, err := wire.MarshalResult(&result)
	if err != nil {
		panic(err) // it has only texts, numbers and GUIDs
	}
	return text
}

// longestName is as long as a ClientId can be.
var longestName = strings.Repeat("x", wire.MaxName)

// fit returns a handler's JobResult, cut if it is too long for an AckJob, or for the Result
// that the leader makes of it.
func (r *run) fit(text []byte) []byte {
	if len(text) <= wire.MaxAck(longestName) { // nearly always
		return text
	}
	q, _ := r.request() // it was one, or its handler would not have run
	limit := wire.MaxAck(q.ClientID)
	if len(text) <= limit {
		return text
	}
	var result wire.JobResult
	if err := json.Unmarshal(text, &result); err != nil {
		why := fmt.Sprintf("the result has %d bytes, at most %d fit into a frame, and it is no JobResult", len(text), limit)
		return r.result(wire.JobResult{Status: wire.Failed, Reason: wire.ReasonError, Message: why, Stderr: why})
	}
	return cut(result, limit)
}

// cut makes a result fit: it drops the archive, and then shortens the output.
func cut(result wire.JobResult, limit int) []byte {
	if n := len(result.OutputArchive); n > 0 {
		result.OutputArchive = nil
		said := fmt.Sprintf("the output archive of %d bytes is left out: the result would be larger than %d bytes", n, limit)
		result.Message = strings.TrimPrefix(jobs.Clip(result.Message, maxReason, " …")+"; "+said, "; ")
	}
	for {
		text := encode(result)
		if len(text) <= limit {
			return text
		}
		switch {
		case len(result.Stdout)+len(result.Stderr) == 0:
			result.Message, result.Artifacts = "the result was too large", nil
		case len(result.Stdout) >= len(result.Stderr):
			result.Stdout, result.StdoutTruncated = jobs.Clip(result.Stdout, len(result.Stdout)/2, ""), true
		default:
			result.Stderr, result.StderrTruncated = jobs.Clip(result.Stderr, len(result.Stderr)/2, ""), true
		}
	}
}
