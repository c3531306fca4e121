package status

import (
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Detail is what {job:ID}:detail holds. Times are zero while they are unknown.
type Detail struct {
	Kind      jobs.Kind
	Input     string
	Worker    string // who runs it, or ran it last
	Trace     string
	Step      string               // the part of the work under way
	Steps     map[string]time.Time // when each step was last begun
	Attempt   int
	Crashes   int
	Pages     int
	Files     int       // that a job of people's own kinds has made
	Damaged   *int      // pages with a warning, of a document that is damaged; nil of others
	Params    int       // bytes of its parameters and several inputs, see Store.Job; 0 for none
	Asked     int       // how many pages it was asked for; 0 for the kind's own choice
	Code      string    // what kind of failure it was, if its handler has said so
	Created   time.Time // see Entry; zero for a job that an earlier version recorded
	Submitted time.Time
	Started   time.Time // of the last attempt
	Finished  time.Time
	Next      time.Time // when the next attempt begins, of a job whose last one has failed and that waits for it
	Sent      time.Time // when its message was last published again, because there seemed to be none
	Resent    int       // how often it was
	Past      []Past    // attempts that are over, oldest first: the newest 10
}

// created returns the first time known of a job.
func (d Detail) created() time.Time {
	for _, t := range []time.Time{d.Created, d.Submitted, d.Started, d.Finished} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func parseDetail(f map[string]string) Detail {
	number := func(name string) int {
		n, _ := strconv.Atoi(f[name])
		return n
	}
	moment := func(name string) time.Time {
		ms, err := strconv.ParseInt(f[name], 10, 64)
		if err != nil {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	d := Detail{
		Kind: jobs.Kind(f["kind"]), Input: fromPieces(f, "input"), Worker: f["worker"], Trace: f["trace"], Step: f["step"],
		Attempt: number("attempt"), Crashes: number("crashes"), Pages: number("pages"), Files: number("files"), Asked: number("asked_pages"), Params: number("params"),
		Code: f["code"], Created: moment("created_at"),
		Submitted: moment("submitted_at"), Started: moment("started_at"), Finished: moment("finished_at"),
		Next: moment("next_at"), Sent: moment("sent_at"), Resent: number("sent_times"),
		Steps: map[string]time.Time{},
	}
	if _, ok := f["damaged"]; ok {
		d.Damaged = new(number("damaged"))
	}
	d.Past = parsePast(f["past"])
	for name := range f {
		if step, ok := strings.CutPrefix(name, "at_"); ok {
			d.Steps[step] = d.Started.Add(time.Duration(number(name)) * time.Millisecond)
		}
	}
	return d
}

// jobFields returns what {job:ID}:detail says of a job from its claim on.
func (s *Store) jobFields(job jobs.Job) []any {
	f := append([]any{"kind", string(job.Kind), "worker", s.Worker}, inPieces("input", job.Input)...)
	if !job.Submitted.IsZero() {
		f = append(f, "submitted_at", job.Submitted.UnixMilli())
	}
	if job.Trace != "" {
		f = append(f, "trace", job.Trace)
	}
	if n := len(paramsText(job)); n > 0 {
		f = append(f, "params", n)
	}
	if job.Pages > 0 {
		f = append(f, "asked_pages", job.Pages)
	}
	return f
}

// pieceBytes is the longest value that Redis keeps in a small hash
// (hash-max-listpack-value). One longer value makes the whole hash three times as large.
const pieceBytes = 64

// inPieces returns a value as fields of at most pieceBytes: name, name2, and so on.
// The last of them is shorter, so pieces of an older value do not count.
func inPieces(name, value string) []any {
	fields := []any{name, value[:min(len(value), pieceBytes)]}
	for n := 2; len(value) >= pieceBytes; n++ {
		value = value[pieceBytes:]
		fields = append(fields, name+strconv.Itoa(n), value[:min(len(value), pieceBytes)])
	}
	return fields
}

// fromPieces puts a value together again.
func fromPieces(fields map[string]string, name string) string {
	value := fields[name]
	for n, last := 2, value; len(last) == pieceBytes; n++ {
		last = fields[name+strconv.Itoa(n)]
		value += last
	}
	return value
}
