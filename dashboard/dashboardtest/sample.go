package dashboardtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Sample returns a fleet that has done something of everything.
func Sample(now time.Time) *Fleet {
	f := New("fleet")
	f.Catalog = []jobapi.Kind{
		{Name: "pdf", Description: "Text and boxes of the pages of a document", Input: "one", Workers: 2, Slots: 8},
		{Name: "thumbnail", Description: "A picture of the first page of a document", Input: "one", Workers: 2, Slots: 8, Cap: 4, Params: json.RawMessage(
			`{"type":"object","properties":{"dpi":{"type":"integer","description":"Dots per inch","default":120,"minimum":1,"maximum":1200},
			"format":{"type":"string","enum":["png","jpeg","webp"],"default":"png","description":"Of the picture"},"title":{"type":"string","maxLength":80,"description":"Written below the picture"},
			"sharpen":{"type":"boolean","default":false,"description":"After scaling"},"scale":{"type":"number","minimum":0.1,"maximum":10}},"required":["title"],"additionalProperties":false}`)},
		{Name: "render", Description: "A scene as a film", Input: "many"},
	}
	f.Tables = []jobapi.Section{{Title: "Disk", Columns: []string{"Directory", "Free", "Of"}, Rows: [][]string{{"/var/lib/relay", "812 GB", "1.2 TB"}}}}
	offset := int64(-12)
	worker := func(name, state string, slots, inHand int, ago time.Duration, gpus ...string) jobapi.Worker {
		return jobapi.Worker{
			ID: "w-" + name, Name: name, Host: name + ".example.com", PID: 4711, Version: "0.9.0", Kinds: []string{"pdf", "thumbnail"}, Slots: slots, Jobs: inHand, State: state,
			Started: jobapi.At(now.Add(-50 * time.Hour)), Seen: jobapi.At(now.Add(-ago)), GPUs: gpus, ClockOffset: &offset,
		}
	}
	f.Force = []jobapi.Worker{
		worker("cpu-1", "working", 8, 6, time.Second), worker("cpu-2", "working", 8, 3, 2*time.Second), worker("cpu-3", "idle", 8, 0, time.Second),
		worker("gpu-1", "draining", 2, 1, 3*time.Second, "0", "1"), worker("gpu-3", "silent", 2, 0, 95*time.Second, "0"),
	}
	kinds := []string{"pdf", "thumbnail", "pdf", "render", "pdf"}
	for i := range 230 {
		f.Put(sampleJob(i, kinds[i%len(kinds)], now))
	}
	f.running(now)
	f.failed(now)
	return f
}

func sampleJob(i int, kind string, now time.Time) jobapi.Job {
	created := now.Add(-time.Duration(230-i) * 6 * time.Minute)
	j := jobapi.Job{
		ID: fmt.Sprintf("01JDQ%08dZXW4M", i), Type: "fleet." + kind, Status: jobs.Succeeded, CreatedAt: jobapi.At(created), StartedAt: jobapi.At(created.Add(3 * time.Second)),
		FinishedAt: jobapi.At(created.Add(time.Duration(5+i%90) * time.Second)), Request: json.RawMessage(fmt.Sprintf(`{"kind":%q,"input":"uploads/report-%d.pdf"}`, kind, i)),
		Attempt: 1, Worker: fmt.Sprintf("cpu-%d", 1+i%3), Result: json.RawMessage(`{"object":"results/x/result.json","pages":12}`),
	}
	switch {
	case i%17 == 3:
		j.Status, j.Result = jobs.Failed, nil
		j.Error = &jobapi.Error{Code: "FAILED", Message: fmt.Sprintf("page %d: the font \"F%d\" has no glyphs", i, i%4)}
		if i%2 == 0 {
			j.Error = &jobapi.Error{Code: "OUT_OF_MEMORY", Message: "the program has used more than 2 GB", Details: map[string]any{"limitBytes": 2000000000}}
		}
	case i%41 == 7:
		j.Status, j.Result = jobs.Canceled, nil
	case i > 222:
		j.Status, j.Worker, j.Attempt, j.Result = jobs.Queued, "", 0, nil
		j.StartedAt, j.FinishedAt = jobapi.Time{}, jobapi.Time{}
	}
	return j
}

// running is a job in the middle of its work.
func (f *Fleet) running(now time.Time) {
	at := func(ago time.Duration) jobapi.Time { return jobapi.At(now.Add(-ago)) }
	j := jobapi.Job{
		ID: "invoice-2026-11", Type: "fleet.thumbnail", Status: jobs.Running, CreatedAt: at(4 * time.Minute), StartedAt: at(70 * time.Second), Attempt: 2, Worker: "cpu-1",
		Request: json.RawMessage(`{"kind":"thumbnail","params":{"dpi":300,"format":"png","title":"Invoice"},"input":"uploads/invoice.pdf"}`),
		Steps: []jobapi.Step{
			{Name: "fetch", Status: jobapi.Succeeded, StartedAt: at(70 * time.Second), FinishedAt: at(68 * time.Second), Message: "4.2 MB"},
			{Name: "run", Status: jobapi.Running, StartedAt: at(68 * time.Second), Message: "75%: 3/4 tiles"},
			{Name: "store", Status: jobapi.Pending},
		},
		Attempts: []jobapi.Attempt{{Number: 1, Worker: "gpu-3", Started: at(3 * time.Minute), Finished: at(100 * time.Second), Outcome: "crashed", Message: "nothing was heard of its worker for 60 s"}},
	}
	j.Progress = jobapi.ProgressOf(j.Steps)
	f.Put(j)
	f.Explain(j.ID, jobapi.Reason{Code: jobapi.WhyLeased, Message: "Worker cpu-1 runs it", Worker: "cpu-1", Since: at(70 * time.Second), Until: at(-50 * time.Second)})
	for i := range 40 {
		f.Write(j.ID, fmt.Sprintf("tile %d of 40: 512x512, %d ms", i+1, 80+i*7%31))
	}
	waits := sampleJob(229, "render", now)
	waits.ID = "film-7"
	f.Put(waits)
	f.Explain(waits.ID, jobapi.Reason{Code: jobapi.WhyNoWorker, Message: "No live worker runs kind render: start one that does", Since: at(7 * time.Minute)})
}

// failed is a job that has left files and a log, and an error.
func (f *Fleet) failed(now time.Time) {
	j := sampleJob(3, "thumbnail", now.Add(-time.Minute))
	j.ID, j.CreatedAt, j.FinishedAt, j.StartedAt = "broken-1", jobapi.At(now.Add(-time.Hour)), jobapi.At(now.Add(-50*time.Minute)), jobapi.At(now.Add(-51*time.Minute))
	j.Status, j.Result, j.Error = jobs.Failed, nil, &jobapi.Error{Code: "OUT_OF_MEMORY", Message: "the program has used more than 2 GB", Details: map[string]any{"limitBytes": 2000000000}}
	f.Put(j)
	f.Write(j.ID, "reading uploads/broken.pdf", "killed: out of memory")
	ok := sampleJob(0, "thumbnail", now)
	ok.ID, ok.CreatedAt, ok.StartedAt, ok.FinishedAt = "done-1", jobapi.At(now.Add(-20*time.Minute)), jobapi.At(now.Add(-19*time.Minute)), jobapi.At(now.Add(-18*time.Minute))
	f.Put(ok)
	f.Write(ok.ID, "reading uploads/a.pdf", "wrote page-1.png")
	var picture bytes.Buffer
	img := image.NewRGBA(image.Rect(0, 0, 320, 200))
	for x := range 320 {
		for y := range 200 {
			img.Set(x, y, color.RGBA{uint8(x * 255 / 320), uint8(y), 160, 255}) //nolint:gosec // of 320 and 200
		}
	}
	_ = png.Encode(&picture, img) // into memory
	f.Keep(ok.ID, "page-1.png", picture.Bytes())
	f.Keep(ok.ID, "result.json", []byte(`{"pages":12}`))
	f.Keep(ok.ID, "words.csv", []byte("word,n\nfleet,7\n"))
	f.Keep(ok.ID, "model.bin", bytes.Repeat([]byte{0, 1}, 70_000))
}
