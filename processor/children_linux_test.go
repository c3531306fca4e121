package processor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// obey is a child that reads documents as [ServePDF] does, says which process it
// is where the title goes, and does what the text of a page tells it: "now" at
// once, "later" with the next document.
func obey() {
	in := json.NewDecoder(os.Stdin)
	later := func(pdfReply) {}
	for {
		var req pdfRequest
		if in.Decode(&req) != nil {
			return
		}
		before := later
		_ = readPDF(req, func(r pdfReply) error {
			before(r)
			if r.Opened != nil {
				r.Opened.Info.Title = strconv.Itoa(os.Getpid())
			}
			if r.Page != nil {
				when, what, _ := strings.Cut(strings.TrimSpace(r.Page.Text), " ")
				switch when {
				case "now":
					orders[what](r)
				case "later":
					later = orders[what]
				}
			}
			return json.NewEncoder(os.Stdout).Encode(r)
		})
	}
}

// held is memory that a child does not give back.
var held []byte

// orders are what a document may make of a child, asked before each reply.
var orders = map[string]func(pdfReply){
	"die":       func(pdfReply) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); hang() },
	"panic":     func(pdfReply) { panic("boom") },
	"starve":    func(pdfReply) { eatMemory() },
	"hang":      func(pdfReply) { hang() },
	"babble":    func(pdfReply) { say("Segmentation fault") },
	"leave":     func(pdfReply) { os.Exit(0) },
	"grow":      func(pdfReply) { held = slices.Repeat([]byte{1}, 2*keepMemory) },
	"die on 2":  func(r pdfReply) { on(r, 2, func() { panic("boom") }) },
	"quit on 3": func(r pdfReply) { on(r, 3, func() { os.Exit(0) }) },
	"burn": func(pdfReply) {
		for cpuOfSelf() < keepCPU+keepCPU/4 {
			_ = strings.Repeat("x", 1<<10)
		}
	},
}

func on(r pdfReply, page int, do func()) {
	if r.Page != nil && r.Page.Page == page {
		do()
	}
}

func cpuOfSelf() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// shared returns an engine whose children obey and are kept.
func shared(t *testing.T) PDF {
	t.Helper()
	e := child(t, "obey")
	e.Children = new(Children)
	t.Cleanup(func() { _ = e.Children.Close() })
	return e
}

// reading is what came of a document.
type reading struct {
	pid   int
	opens int
	texts []string
}

func read(t *testing.T, e PDF, data []byte) (got reading, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return got, err
	}
	err = e.Read(t.Context(), jobs.Job{}, path, 1, Sink{
		Open: func(_ int, about json.RawMessage) error {
			var info pdfInfo
			got.opens++
			if err := json.Unmarshal(about, &info); err != nil {
				return err
			}
			got.pid, _ = strconv.Atoi(info.Title)
			return nil
		},
		Page: func(r Record) error { got.texts = append(got.texts, strings.TrimSpace(r.Text)); return nil },
	})
	return got, err
}

// mustRead reads a document with the given pages, which must come whole and once.
func mustRead(t *testing.T, e PDF, texts ...string) (pid int) {
	t.Helper()
	got, err := read(t, e, pdftest.Pages(texts...).Table(""))
	if err != nil || got.opens != 1 || !slices.Equal(got.texts, texts) || got.pid == 0 {
		t.Fatalf("read %+v, %v; want pages %q, opened once", got, err, texts)
	}
	return got.pid
}

func TestF77ManyDocumentsTakeFewProcesses(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	e := shared(t)
	var mu sync.Mutex
	pids := map[int]int{}
	var readers sync.WaitGroup
	for reader := range 2 {
		readers.Go(func() {
			for n := range 100 {
				text := fmt.Sprintf("document %d of reader %d", n, reader)
				got, err := read(t, e, pdftest.Pages(text).Table(""))
				if err != nil || !slices.Equal(got.texts, []string{text}) {
					t.Errorf("read %q, %v; want %q", got.texts, err, text)
				}
				mu.Lock()
				pids[got.pid]++
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	if len(pids) > 20 { // a child is replaced after a second of work
		t.Errorf("200 documents took %d processes", len(pids))
	}
	if err := e.Children.Close(); err != nil {
		t.Error(err)
	}
	for pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("child %d is still there: %v", pid, err)
		}
	}
	mustRead(t, e, "after the end") // nothing is kept any more
}

func TestF77HostileDocumentHarmsNoOther(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	say := func(text string) []byte { return pdftest.Pages(text).Table("") }
	tests := []struct {
		name string
		data []byte
		want string // part of the error; empty if it can be read
	}{
		{"kills its reader", say("now die"), "at page 1 of 1: run processor.test: ended by signal 9"},
		{"crashes its reader", say("now panic"), "at page 1 of 1: run processor.test: exit status 2: panic: boom"},
		{"needs too much memory", say("now starve"), "at page 1 of 1: run processor.test: used too much memory (limit: 1073741824"},
		{"takes too long", say("now hang"), "stopped at page 1 of 1: nothing came for 6s"},
		{"makes its reader babble", say("now babble"), "invalid reply at page 1 of 1"},
		{"ends its reader", say("now leave"), "ended at page 1 of 1 before it had answered"},
		{"cannot be opened", []byte("Dear Sir or Madam"), "input is not a PDF"},
		{"has too many pages", pdftest.Pages(strings.Split("1234567", "")...).Table(""), "document has 7 pages"},
		{"has a page that cannot be read", pdftest.Pages(strings.Repeat("a long line\n", maxPageText/10)).Table(""), ""},
		{"leaves much memory", say("now grow"), ""},
		{"leaves little processor time", say("now burn"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := shared(t)
			e.MaxPages = 6
			before := mustRead(t, e, "good")
			hostile := e
			if tt.name == "takes too long" {
				hostile.PageTimeout = 6 * time.Second
			}
			got, err := read(t, hostile, tt.data)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("read %+v, %v; want an error that says %q", got.texts, err, tt.want)
			}
			after := mustRead(t, e, "as", "good", "as", "before")
			if after == before || after == got.pid {
				t.Errorf("children %d, %d, %d: want one of its own for the document after", before, got.pid, after)
			}
		})
	}
}

func TestF77ChildBrokenByADocumentIsNotTheNextOnesFault(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	for _, how := range []string{"die", "panic", "starve", "hang", "babble", "leave", "die on 2", "quit on 3"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			e := shared(t)
			first := mustRead(t, e, "later "+how)
			next := e
			if how == "hang" {
				next.PageTimeout = 6 * time.Second
			}
			got, err := read(t, next, pdftest.Pages("one", "two", "three").Table(""))
			if err != nil || got.opens != 1 || !slices.Equal(got.texts, []string{"one", "two", "three"}) {
				t.Fatalf("read %+v, %v; want each page once", got, err)
			}
			if last := mustRead(t, e, "last"); last == first {
				t.Errorf("the broken child %d is asked again", last)
			}
		})
	}
}

func TestF77ChildKilledBetweenDocumentsIsReplaced(t *testing.T) {
	t.Parallel()
	e := shared(t)
	for range 5 {
		pid := mustRead(t, e, "one")
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if next := mustRead(t, e, "two"); next == pid {
			t.Fatalf("child %d lives on", pid)
		}
	}
}

func TestF77DocumentsOfOneChildShareNothing(t *testing.T) {
	t.Parallel()
	kept := child(t, "serve")
	kept.Children = new(Children)
	defer kept.Children.Close()
	font := func(name string) []byte { // the same objects, another meaning
		b := pdftest.Pages("abc αβγ")
		b.Set(3, "<</Type /Font /Subtype /Type1 /BaseFont /%s>>", name)
		return b.Table("")
	}
	documents := [][]byte{
		font("Helvetica"), font("Symbol"), font("ZapfDingbats"), font("Helvetica"),
		testdata(t, "groff.pdf"), testdata(t, "aes-256-password.pdf"), testdata(t, "cairo.pdf"), testdata(t, "aes-256-password.pdf"), testdata(t, "groff.pdf"),
	}
	var told [2][]string
	for i, e := range []PDF{kept, child(t, "serve")} {
		for n, data := range documents {
			e.Password = ""
			if n == 5 {
				e.Password = "user"
			}
			told[i] = append(told[i], everything(t, e, data))
		}
	}
	if diff := cmp.Diff(told[1], told[0]); diff != "" {
		t.Errorf("of a fresh child each, of one that is kept:\n%s", diff)
	}
	if !strings.Contains(told[0][7], "needs a password") || told[0][5] == told[0][7] {
		t.Errorf("with the password %q, then without %q", told[0][5], told[0][7])
	}
}

// everything returns all that an engine says of a document.
func everything(t *testing.T, e PDF, data []byte) string {
	t.Helper()
	var said strings.Builder
	err := e.Read(t.Context(), jobs.Job{}, onDisk(t, data), 1, Sink{
		Open: func(pages int, about json.RawMessage) error {
			fmt.Fprintf(&said, "%d pages, %s\n", pages, about)
			return nil
		},
		Page: func(r Record) error { return json.NewEncoder(&said).Encode(r) },
	})
	fmt.Fprintln(&said, err)
	return said.String()
}
