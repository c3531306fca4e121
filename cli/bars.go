package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// maxBars is how many running jobs have a bar of their own, beside the one for
// all jobs.
const maxBars = 10

// bars shows the progress of jobs, on a terminal only, and notes when a job waits for its next attempt, also elsewhere.
type bars struct {
	out   *os.File
	waits map[jobs.ID]string // why a job waits for its next attempt, as it was noted
	all   *mpb.Progress      // nil when there is no terminal
	total *mpb.Bar
	files map[jobs.ID]string
	one   map[jobs.ID]*mpb.Bar
}

func newBars(w *os.File, files map[jobs.ID]string) *bars {
	b := &bars{out: w, waits: map[jobs.ID]string{}, files: files, one: map[jobs.ID]*mpb.Bar{}}
	if !term.IsTerminal(int(w.Fd())) {
		return b
	}
	b.all = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithRefreshRate(100*time.Millisecond))
	b.total = b.all.AddBar(int64(len(files)),
		mpb.BarPriority(1<<30), mpb.PrependDecorators(decor.Name("jobs"), decor.CountersNoUnit("%4d/%d", decor.WCSyncSpace)))
	return b
}

func (b *bars) update(e status.Entry) {
	if e.State() == jobs.Queued && !e.Detail.Next.IsZero() && b.waits[e.ID] != e.Message {
		b.waits[e.ID] = e.Message
		b.note(oneLine(b.name(e.ID) + ": " + e.Message))
	}
	if b.all == nil {
		return
	}
	bar := b.one[e.ID]
	if e.State().Terminal() {
		if bar != nil {
			bar.Abort(true)
			delete(b.one, e.ID)
		}
		b.total.Increment()
		return
	}
	if bar == nil && e.State() == jobs.Running && len(b.one) < maxBars {
		bar = b.all.AddBar(100, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(
			decor.Name(clipName(b.name(e.ID)), decor.WCSyncSpaceR), decor.Percentage(decor.WCSyncSpace)))
		b.one[e.ID] = bar
	}
	if bar != nil {
		bar.SetCurrent(int64(e.Progress))
	}
}

// name is what people call a job: its file, or its id if it has none.
func (b *bars) name(id jobs.ID) string {
	return endedJob{File: b.files[id], Job: jobapi.Job{ID: string(id)}}.name()
}

// note says something, above the bars if there are any; nothing if it is empty.
func (b *bars) note(text string) {
	if text == "" {
		return
	}
	var out io.Writer = b.out
	if b.all != nil {
		out = b.all
	}
	fmt.Fprintln(out, "batchfleet:", text)
}

// done leaves the terminal to others.
func (b *bars) done() {
	if b.all == nil {
		return
	}
	for _, bar := range b.one {
		bar.Abort(true)
	}
	if !b.total.Completed() {
		b.total.Abort(false)
	}
	b.all.Wait()
}

func clipName(s string) string {
	r := []rune(oneLine(s))
	if len(r) > 30 {
		return string(r[:29]) + "…"
	}
	return string(r)
}
