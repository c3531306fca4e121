package relay

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobapi"
)

// maxRows is how many rows a section of a report has.
const maxRows = 200

// Report implements [jobapi.Reporter].
func (j Jobs) Report(context.Context) ([]jobapi.Section, error) {
	uploads, callbacks := j.Relay.deliveries()
	return []jobapi.Section{j.Relay.diskReport(), j.Relay.gpuReport(), uploads, callbacks}, nil
}

func (r *Relay) diskReport() jobapi.Section {
	s := jobapi.Section{Title: "Disk", Columns: []string{"Free", "No task is taken or started below", "Tasks on it"}}
	free := "not known"
	if n, err := disk.Free(r.Dir); err == nil {
		free = mebibytes(n)
	}
	tasks := 0
	for state := Queued; state <= Canceled; state++ {
		tasks += r.tasks.count(state)
	}
	s.Rows = [][]string{{free, mebibytes(r.MinFree), strconv.Itoa(tasks)}}
	return s
}

func (r *Relay) gpuReport() jobapi.Section {
	s := jobapi.Section{Title: "GPUs", Columns: []string{"GPUs", "Held by running tasks", "Tasks that wait for one"}}
	if !r.HasGPUs {
		return s
	}
	held, wait := 0, 0
	for _, e := range r.tasks.all(Queued, Running) {
		t := e.task.Load()
		if k := r.Kinds().Get(t.Kind); k == nil || k.GPUs == 0 {
			continue
		} else if t.State == Running {
			held += k.GPUs
		} else {
			wait++
		}
	}
	s.Rows = [][]string{{r.GPUs, strconv.Itoa(held), strconv.Itoa(wait)}}
	return s
}

// deliveries reports what is still to be sent: uploads, and events of callbacks. Of an address only the host is shown: the rest may be a secret.
func (r *Relay) deliveries() (uploads, callbacks jobapi.Section) {
	uploads = jobapi.Section{Title: "Uploads that are not delivered", Columns: []string{"Task", "Kind", "State", "Since", "Files", "Last problem"}}
	callbacks = jobapi.Section{Title: "Callbacks that are not delivered", Columns: []string{"Task", "To", "Next event", "Waiting", "Attempts", "Since", "Given up"}}
	r.tasks.newest("", time.Time{}, func(t *Task) bool {
		problem := t.Message
		if t.uploadFailed() {
			problem = t.Error.Message
		}
		if (t.State == Uploading || t.uploadFailed()) && len(uploads.Rows) < maxRows {
			uploads.Rows = append(uploads.Rows, []string{
				string(t.ID), string(t.Kind), t.State.String(), moment(t.UploadingAt), strconv.Itoa(len(t.Artifacts)), jobapi.ShownText(problem, maxReason),
			})
		}
		if len(t.Events) > 0 && len(callbacks.Rows) < maxRows {
			first := t.Events[0]
			callbacks.Rows = append(callbacks.Rows, []string{
				string(t.ID), hostOf(t.Callback.URL), first.Name, strconv.Itoa(len(t.Events)), strconv.Itoa(first.Attempts), moment(first.At), strconv.Itoa(t.Callback.Dead),
			})
		}
		return len(uploads.Rows) < maxRows || len(callbacks.Rows) < maxRows
	})
	return uploads, callbacks
}

func mebibytes(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
