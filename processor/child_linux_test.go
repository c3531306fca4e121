package processor

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// The test binary is also the child of [PDF]: with these arguments it is one of
// children, good or bad, instead of the tests.
const childArgument = "pdf-child-of-the-tests"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childArgument {
		children[os.Args[2]]()
		os.Exit(0)
	}
	beFakeProgram()
	// The tests that run in parallel wait for limits of several seconds, and need
	// little CPU meanwhile.
	testrun.Parallel(16)
	goleak.VerifyTestMain(m)
}

// children are what a child may do, good and bad.
var children = map[string]func(){
	"serve": func() {
		if err := ServePDF(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	},
	"obey": obey,
	"exit with 3": func() {
		pages(1, 2)
		fmt.Fprintln(os.Stderr, "ink is out")
		os.Exit(3)
	},
	"die":               func() { pages(1, 2); _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); hang() },
	"hang at once":      hang,
	"hang while open":   func() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n'); hang() },
	"hang on page 3":    func() { pages(1, 2); hang() },
	"eat memory":        func() { pages(1, 2); eatMemory() },
	"eat CPU":           func() { pages(1, 2); eatCPU() },
	"nonsense":          func() { pages(1, 2); say("Segmentation fault"); hang() },
	"endless line":      func() { pages(1, 2); endlessLine() },
	"empty objects":     func() { pages(1, 2); say("{}"); hang() },
	"null":              func() { pages(1, 2); say("null"); hang() },
	"end without done":  func() { pages(1, 2) },
	"done too early":    func() { pages(1, 2); say(`{"done":true}`) },
	"page twice":        func() { pages(1, 2, 2); hang() },
	"page left out":     func() { pages(1, 2, 4); hang() },
	"page backwards":    func() { pages(1, 2, 1); hang() },
	"page too many":     func() { pages(1, 2, 3, 4, 5, 6); hang() },
	"page before open":  func() { say(`{"page":{"page":1}}`); hang() },
	"opened twice":      func() { pages(); say(`{"opened":{"pages":9}}`); hang() },
	"fewer than none":   func() { say(`{"opened":{"pages":-1}}`); hang() },
	"talk after done":   func() { pages(1, 2, 3, 4, 5); say(`{"done":true}` + "\n" + `{"done":true}`); hang() },
	"end at once":       func() {},
	"panic":             func() { pages(1, 2); panic("boom") },
	"fail with a novel": func() { say(`{"failed":"` + strings.Repeat("x", 1<<20) + `"}`); hang() },
}

// pages opens a document of five pages and passes some.
func pages(numbers ...int) {
	say(`{"opened":{"pages":5,"info":{"version":"1.7"}}}`)
	for _, n := range numbers {
		say(fmt.Sprintf(`{"page":{"page":%d,"text":"words","words":1,"has_text":true}}`, n))
	}
}

func say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

// hang waits for the signal that ends the child; a lonely select would be taken
// for a deadlock.
func hang() { time.Sleep(time.Hour) }

func eatMemory() {
	var all [][]byte
	for {
		all = append(all, make([]byte, 16<<20)) // reserved, not touched: cheap for the machine
		all[0][0]++
	}
}

// eatCPU takes what CPU the tests beside it leave.
func eatCPU() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
	for n := 0; ; n++ {
		_ = n
	}
}

func endlessLine() {
	piece := strings.Repeat("x", 64<<10)
	for {
		if _, err := os.Stdout.WriteString(piece); err != nil {
			return
		}
	}
}

// child returns an engine whose child is this test binary.
func child(t *testing.T, name string) PDF {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if children[name] == nil {
		t.Fatalf("no child %q", name)
	}
	return PDF{
		Executable: exe, Args: []string{childArgument, name},
		Memory: 1 << 30, Timeout: time.Minute, PageTimeout: 30 * time.Second,
	}
}

func TestF73HostileChildFailsItsJobAndNoOther(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	const word = "before it had answered"
	tests := []struct {
		name  string // of the child
		limit func(*PDF)
		want  string // part of the error
		done  int    // pages that came through
	}{
		{"exit with 3", nil, "pdf reader ended at page 3 of 5: run processor.test: exit status 3: ink is out", 2},
		{"die", nil, "pdf reader ended at page 3 of 5: run processor.test: ended by signal 9", 2},
		{"panic", nil, "pdf reader ended at page 3 of 5: run processor.test: exit status 2", 2},
		{"hang at once", func(p *PDF) { p.PageTimeout = time.Second }, "stopped while it opened the document: nothing came for 1s (PDF_PAGE_TIMEOUT)", 0},
		{"hang while open", func(p *PDF) { p.PageTimeout = time.Second }, "stopped while it opened the document: nothing came for 1s (PDF_PAGE_TIMEOUT)", 0},
		{"hang on page 3", func(p *PDF) { p.PageTimeout = 10 * time.Second }, "stopped at page 3 of 5: nothing came for 10s (PDF_PAGE_TIMEOUT)", 2},
		{"hang on page 3", func(p *PDF) { p.Timeout = 10 * time.Second }, "at page 3 of 5: run processor.test: took too long (limit: 10s, PDF_TIMEOUT)", 2},
		{"eat memory", func(p *PDF) { p.Memory = 512 << 20 }, "at page 3 of 5: run processor.test: used too much memory (limit: 536870912 bytes", 2},
		{"eat CPU", func(p *PDF) { p.Timeout = 10 * time.Second }, "at page 3 of 5: run processor.test: ", 2},
		{"nonsense", nil, "pdf reader sent an invalid reply at page 3 of 5", 2},
		{"endless line", nil, "at page 3 of 5: run processor.test: wrote too much", 2},
		{"empty objects", nil, "pdf reader sent an invalid reply at page 3 of 5", 2},
		{"null", nil, "pdf reader sent an invalid reply at page 3 of 5", 2},
		{"end without done", nil, "pdf reader ended at page 3 of 5 " + word, 2},
		{"end at once", nil, "pdf reader ended while it opened the document " + word, 0},
		{"done too early", nil, "ended after page 2 of 5", 2},
		{"page twice", nil, "pdf reader passed page 2 at page 3 of 5", 2},
		{"page left out", nil, "pdf reader passed page 4 at page 3 of 5", 2},
		{"page backwards", nil, "pdf reader passed page 1 at page 3 of 5", 2},
		{"page too many", nil, "pdf reader passed page 6 after the last page", 5},
		{"page before open", nil, "pdf reader sent an invalid reply while it opened the document", 0},
		{"opened twice", nil, "pdf reader sent an invalid reply at page 1 of 5", 0},
		{"fewer than none", nil, "-1 pages", 0},
		{"talk after done", nil, "pdf reader wrote more after the end", 5},
		{"fail with a novel", nil, "xxx", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := child(t, tt.name)
			if tt.limit != nil {
				tt.limit(&e)
			}
			d := newFixture(t, e)
			d.put(t, "in.pdf", "a document")
			job := jobs.Job{ID: "j", Input: "in.pdf"}
			began := time.Now()
			result, err := d.run(t.Context(), job)
			if err == nil || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("run = %+v, %v; want the job's own failure that says %q", result, err, tt.want)
			}
			if len(err.Error()) > 6000 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			var done []int
			for _, p := range d.reports[1:] { // after the one of the fetch
				done = append(done, p.Done)
			}
			if want := []int{1, 2, 3, 4, 5}[:tt.done]; !slices.Equal(done, want) {
				t.Errorf("pages %v were reported, want %v", done, want)
			}
			d.wantNothingLeft(t)

			// The next document of the same worker is read.
			d.Engine = child(t, "serve")
			d.put(t, "in.pdf", string(pdftest.Pages("one", "two").Table("")))
			if next := d.mustRun(t, jobs.Job{ID: "next", Input: "in.pdf"}); next.Pages != 2 {
				t.Errorf("the next document has %d pages, want 2", next.Pages)
			}
		})
	}
}

func TestF41RealDocuments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		data []byte
		want string // of the pages' texts
		n    int
	}{
		{"generated", pdftest.Pages("Hello <World> & all", "second page").Table(""), "Hello <World> & all", 2},
		{"packed", pdftest.Pages("packed away").Packed(""), "packed away", 1},
		{"hybrid", pdftest.Pages("both ways").Hybrid(""), "both ways", 1},
		{"no pages", pdftest.Pages().Table(""), "", 0},
		{"groff", testdata(t, "groff.pdf"), "", -1},
		{"ghostscript", testdata(t, "ghostscript.pdf"), "", -1},
		{"cairo", testdata(t, "cairo.pdf"), "", -1},
		{"encrypted without a password", testdata(t, "aes-256.pdf"), "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, child(t, "serve"))
			d.put(t, "in.pdf", string(tt.data))
			result := d.mustRun(t, jobs.Job{ID: "j", Kind: "pdf", Input: "in.pdf"})
			s := d.summary(t)
			if tt.n >= 0 && result.Pages != tt.n || s.Pages != result.Pages || s.Engine != "builtin" {
				t.Errorf("result %+v, summary %+v; want %d pages", result, s, tt.n)
			}
			var info pdfInfo
			if err := json.Unmarshal(s.Document.Info, &info); err != nil || info.Version == "" {
				t.Errorf("document info %s, %v", s.Document.Info, err)
			}
			if result.Pages == 0 {
				return
			}
			recs := d.records(t)
			if len(recs) != result.Pages || !strings.Contains(recs[0].Text, tt.want) || s.Document.PagesWithText != result.Pages {
				t.Errorf("pages %+v, want %q", recs, tt.want)
			}
			if last := d.reports[len(d.reports)-1]; last.Step != "store" || last.Percent() != 100 {
				t.Errorf("last report %+v", last)
			}
		})
	}
}

func TestF45PDFResumesAtTheMissingPage(t *testing.T) {
	t.Parallel()
	d := newFixture(t, child(t, "serve"))
	pdf := string(pdftest.Pages("one", "two", "three", "four").Table(""))
	d.put(t, "in.pdf", pdf)
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(pdf)))
	part := `{"page":1,"text":"kept"}` + "\n" + `{"page":2,"text":"kept"}` + "\n"
	d.put(t, "results/j/parts/"+hash[:16]+"-00000001.jsonl", part)
	// A checkpoint of another document is not taken for one of this.
	d.put(t, "results/j/parts/0123456789abcdef-00000003.jsonl", `{"page":3,"text":"foreign"}`+"\n")
	d.put(t, "results/j/parts/00000003.jsonl", `{"page":3,"text":"foreign"}`+"\n")
	d.mustRun(t, jobs.Job{ID: "j", Input: "in.pdf"})
	var texts []string
	for _, r := range d.records(t) {
		texts = append(texts, strings.TrimSpace(r.Text))
	}
	if want := []string{"kept", "kept", "three", "four"}; !slices.Equal(texts, want) {
		t.Errorf("pages %q, want %q", texts, want)
	}
	if d.reports[1].Done != 3 {
		t.Errorf("the first page reported is %d, want 3", d.reports[1].Done)
	}
}

func TestF17ChildEndsWithTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hang at once", "hang on page 3", "eat CPU"} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, child(t, name))
			d.put(t, "in.pdf", "a document")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(300*time.Millisecond, func() { cancel(jobs.ErrDrained) })
			began := time.Now()
			if _, err := d.run(ctx, jobs.Job{ID: "j", Input: "in.pdf"}); !errors.Is(err, jobs.ErrDrained) {
				t.Errorf("run: %v, want the cause", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestF16ChildThatCannotBeStartedIsNotTheJobsFault(t *testing.T) {
	t.Parallel()
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"missing": plain + "/gone", "not executable": plain, "directory": t.TempDir(), "no name": ""} {
		t.Run(name, func(t *testing.T) {
			e := child(t, "serve")
			e.Executable = path
			d := newFixture(t, e)
			d.put(t, "in.pdf", "a document")
			if _, err := d.run(t.Context(), jobs.Job{ID: "j", Input: "in.pdf"}); !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("run: %v, want ErrUnavailable", err)
			}
		})
	}
}

func TestF16CopyOfTheInputThatVanishesIsNotTheJobsFault(t *testing.T) {
	t.Parallel()
	err := child(t, "serve").Read(t.Context(), jobs.Job{}, t.TempDir()+"/gone", 1, Sink{})
	if !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("read: %v, want ErrUnavailable", err)
	}
}

func TestF16StorageTroubleWhileTheChildRunsIsNotTheJobsFault(t *testing.T) {
	t.Parallel()
	d := newFixture(t, child(t, "hang on page 3"))
	d.Checkpoint = time.Nanosecond
	d.put(t, "in.pdf", "a document")
	d.store.refuseOn("put results/j/parts/")
	if _, err := d.run(t.Context(), jobs.Job{ID: "j", Input: "in.pdf"}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("run: %v, want ErrUnavailable", err)
	}
}

func TestF73DocumentMayBeLargerThanItsMemory(t *testing.T) {
	t.Parallel()
	const image = 2 << 30 // bytes, a hole in the file
	path := filepath.Join(t.TempDir(), "input")
	head := "%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1/Kids[3 0 R]>>endobj\n" +
		"3 0 obj<</Type/Page/Contents 4 0 R/Resources<</Font<</F 5 0 R>>/XObject<</I 6 0 R>>>>>>endobj\n" +
		"4 0 obj<<>>stream\nBT /F 12 Tf (a large scan) Tj ET /I Do\nendstream endobj\n5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n" +
		fmt.Sprintf("6 0 obj<</Subtype/Image/Length %d>>stream\n", image)
	tail := "\nendstream endobj\nxref\n0 7\n0000000000 65535 f \n"
	for n := 1; n <= 6; n++ {
		tail += fmt.Sprintf("%010d 00000 n \n", strings.Index(head, fmt.Sprintf("%d 0 obj", n)))
	}
	tail += fmt.Sprintf("trailer<</Size 7/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", int64(len(head))+image+int64(strings.Index(tail, "xref")))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, headErr := f.WriteString(head)
	_, tailErr := f.WriteAt([]byte(tail), int64(len(head))+image)
	if err := errors.Join(headErr, tailErr, f.Close()); err != nil {
		t.Fatal(err)
	}
	engine := child(t, "serve")
	engine.Memory = 1 << 30 // the race detector needs most of it
	var got Record
	err = engine.Read(t.Context(), jobs.Job{}, path, 1, Sink{
		Open: func(int, json.RawMessage) error { return nil },
		Page: func(r Record) error { got = r; return nil },
	})
	if err != nil || got.Text != "a large scan" || got.Images != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}
