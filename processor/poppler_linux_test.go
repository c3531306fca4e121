package processor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// A fake program is a link to the test binary, with the name of the program, in
// a directory with the name of what it does. It becomes the shell that runs the
// script.

// fakes are what poppler's programs may do, good and bad. A program without a
// script of its own does what is said under "".
var fakes = map[string]map[string]string{
	"pdfinfo": {
		"":                 `printf 'Title:    fake\nPages:    5\nEncrypted:    no\nPDF version:    1.7\n'`,
		"info hangs":       `exec sleep 3600`,
		"info crashes":     `kill -SEGV $$`,
		"info says little": `echo Title: nothing more`,
		"info miscounts":   `echo Pages: -5`,
		"info is endless":  `exec yes`,
		"a billion pages":  `echo Pages: 1000000000`,
		"info is garbage":  `printf 'Title: \377\376\001\nPages: 5\n'`,
	},
	"pdfimages": {
		"":                  `echo 'page   num  type   width'; echo '   2     0 image      10'`,
		"images hang":       `exec sleep 3600`,
		"images crash":      `echo '   1     0 image'; kill -SEGV $$`,
		"images are noise":  `exec tr '\0' x </dev/zero`,
		"images out of all": `printf '999999999999999999999 0 image\n-1 0 image\n6 0 image\nx y image\nimage\n\n'`,
	},
	"pdftotext": {
		"":                     `printf 'one\n\ftwo\n\fthree\n\ffour\n\ffive\n\f'`,
		"hang at once":         `exec sleep 3600`,
		"hang on page 3":       `printf 'one\n\ftwo\n\f'; exec sleep 3600`,
		"hang after all":       `printf 'one\n\ftwo\n\f\f\f\f'; exec sleep 3600`,
		"leave a child behind": `printf 'one\n\ftwo\n\f\f\f\f'; sleep 3600 & exit 0`,
		"crash on page 3":      `printf 'one\n\ftwo\n\f'; kill -SEGV $$`,
		"die in page 3":        `printf 'one\n\ftwo\n\fthr'; kill -KILL $$`,
		"cut off in page 3":    `printf 'one\n\ftwo\n\fthr'`,
		"end after page 2":     `printf 'one\n\ftwo\n\f'`,
		"a page too many":      `printf 'one\n\f\f\f\f\f\f'`,
		"endless form feeds":   `exec tr '\0' '\f' </dev/zero`,
		"endless text":         `exec yes`,
		"endless stderr":       `printf 'one\n\f'; exec yes >&2`,
		"exit with 3":          `printf 'one\n\ftwo\n\f'; echo noise >&2; echo ink is out >&2; exit 3`,
		"long last words":      `printf 'one\n\ftwo\n\f'; head -c 1000000 /dev/zero | tr '\0' '\377' >&2; exit 3`,
		"eat CPU":              `printf 'one\n\ftwo\n\f'; renice -n 19 $$ >/dev/null; while :; do :; done`,
		"eat memory":           `printf 'one\n\ftwo\n\f'; exec tail /dev/zero`,
		"write a file":         `printf 'one\n\ftwo\n\f'; exec head -c 100 /dev/zero >"$0.leak"`,
		"garbage":              `printf 'one \377\376\200\n\f\300\257\n\f\f\f\355\240\200 \000 five\n\f'`,
		"its own number":       `printf '%s\n\f' $$; sleep 3600`,
		"warn, then report":    `yes 'Syntax Warning: odd ligature in the font' | head -n 200 >&2; echo Syntax Error: No font >&2; printf 'one\n\ftwo\n\f\f\f\f'`,
		"another's":            `echo pdftotext version 4.04`,
	},
}

// beFakeProgram becomes the program that the process was started as, if any.
func beFakeProgram() {
	path := os.Args[0]
	scripts, ok := fakes[filepath.Base(path)]
	if !ok {
		return
	}
	script, ok := scripts[filepath.Base(filepath.Dir(path))]
	if !ok {
		script = scripts[""]
	}
	panic(syscall.Exec("/bin/sh", []string{"sh", "-c", script, path}, []string{"PATH=/usr/bin:/bin"}))
}

// fakePrograms returns a directory with programs that do what name says.
func fakePrograms(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	known := false
	for program, scripts := range fakes {
		known = known || scripts[name] != ""
		if err := os.Symlink(self, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	if !known {
		t.Fatalf("no fake does %q", name)
	}
	return dir
}

func fakePoppler(t *testing.T, name string) Poppler {
	t.Helper()
	dir := fakePrograms(t, name)
	return Poppler{PDF: child(t, "serve"), Programs: Programs{
		Text: filepath.Join(dir, "pdftotext"), Info: filepath.Join(dir, "pdfinfo"), Images: filepath.Join(dir, "pdfimages"),
	}}
}

func TestF73HostileProgramFailsItsJobAndNoOther(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	// Before the first page two processes start and then two more, and the last
	// limit is for all of them.
	second, more := func(p *PDF) { p.PageTimeout = time.Second }, func(p *PDF) { p.PageTimeout = 10 * time.Second }
	whole := func(p *PDF) { p.Timeout = 15 * time.Second }
	const silence, longer = ": nothing came for 1s (PDF_PAGE_TIMEOUT)", ": nothing came for 10s (PDF_PAGE_TIMEOUT)"
	tests := []struct {
		name  string // of the fake
		limit func(*PDF)
		want  string // part of the error
		done  int    // pages that came through
	}{
		{"hang at once", more, "pdf reader was stopped at page 1 of 5" + longer, 0},
		{"hang on page 3", more, "pdf reader was stopped at page 3 of 5" + longer, 2},
		{"hang on page 3", whole, "at page 3 of 5: run processor.test: took too long (limit: 15s, PDF_TIMEOUT)", 2},
		{"hang after all", more, "pdf reader was stopped after the last page" + longer, 5},
		{"leave a child behind", more, "pdf reader was stopped after the last page" + longer, 5},
		{"crash on page 3", nil, "pdf reader gave up at page 3 of 5: pdftotext ended: signal: segmentation fault", 2},
		{"die in page 3", nil, "pdf reader gave up at page 3 of 5: pdftotext ended: signal: killed", 2},
		{"cut off in page 3", nil, "pdf reader gave up at page 3 of 5: pdftotext: output ended in the middle of a page", 2},
		{"end after page 2", nil, "pdf reader gave up at page 3 of 5: pdftotext ended after page 2, pdfinfo counts 5", 2},
		{"a page too many", nil, "pdf reader gave up after the last page: pdftotext wrote a page 6, pdfinfo counts 5", 5},
		{"endless form feeds", nil, "pdftotext wrote a page 6, pdfinfo counts 5", 5},
		{"endless text", nil, "pdf reader gave up at page 1 of 5: pdftotext wrote more than 67108864 bytes for one page", 0},
		{"endless stderr", nil, "pdf reader gave up at page 2 of 5: pdftotext wrote more than 67108864 bytes to stderr", 1},
		{"exit with 3", nil, "pdf reader gave up at page 3 of 5: pdftotext ended: exit status 3: ink is out", 2},
		{"long last words", nil, "pdf reader gave up at page 3 of 5: pdftotext ended: exit status 3", 2},
		{"eat CPU", whole, "at page 3 of 5: ", 2},
		{"eat memory", func(p *PDF) { p.Memory = 512 << 20 }, "pdf reader gave up at page 3 of 5: pdftotext ended: ", 2},
		{"write a file", nil, "pdf reader gave up at page 3 of 5: pdftotext ended: ", 2},
		{"info hangs", second, "pdf reader was stopped while it opened the document" + silence, 0},
		{"info crashes", nil, "document cannot be opened: pdfinfo ended: signal: segmentation fault", 0},
		{"info says little", nil, "document cannot be opened: pdfinfo does not say how many pages there are", 0},
		{"info miscounts", nil, "document cannot be opened: pdfinfo does not say how many pages there are", 0},
		{"info is endless", nil, "document cannot be opened: pdfinfo wrote more than 16777216 bytes", 0},
		{"a billion pages", nil, "document has 1000000000 pages, at most 1000 are allowed (MAX_PAGES)", 0},
		{"images hang", more, "pdf reader was stopped at page 1 of 5" + longer, 0},
		{"images crash", nil, "pdf reader gave up at page 1 of 5: pdfimages ended: signal: segmentation fault", 0},
		{"images are noise", nil, "pdf reader gave up at page 1 of 5: read from pdfimages: ", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := fakePoppler(t, tt.name)
			if tt.limit != nil {
				tt.limit(&e.PDF)
			}
			d := newFixture(t, e)
			d.MaxPages = 1000
			d.put(t, "in.pdf", "a document")
			result, err := d.run(t.Context(), jobs.Job{ID: "j", Input: "in.pdf"})
			if err == nil || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("run = %+v, %v; want the job's own failure that says %q", result, err, tt.want)
			}
			if len(err.Error()) > 6000 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
			if done := len(d.reports) - 1; done != tt.done { // the first is that of the fetch
				t.Errorf("%d pages were reported, want %d", done, tt.done)
			}
			d.wantNothingLeft(t)

			d.Engine = fakePoppler(t, "info is garbage")
			if next := d.mustRun(t, jobs.Job{ID: "next", Input: "in.pdf"}); next.Pages != 5 {
				t.Errorf("the next document has %d pages, want 5", next.Pages)
			}
		})
	}
}

func TestF73GarbageBecomesValidText(t *testing.T) {
	t.Parallel()
	_, got, err := readAll(t, fakePoppler(t, "garbage"), nil, 1)
	if want := []string{"one \ufffd", "\ufffd", "", "", "\ufffd \x00 five"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read %q, %v; want %q", got, err, want)
	}
}

func TestF74ImagesOfPagesThatAreNotThereDoNotCount(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fakePoppler(t, "images out of all"))
	d.put(t, "in.pdf", "a document")
	d.mustRun(t, jobs.Job{ID: "j", Input: "in.pdf"})
	if n := d.summary(t).Document.Images; n != 0 {
		t.Errorf("%d images, want none", n)
	}
}

func TestF73NothingIsLeftOfAStoppedProgram(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	e := fakePoppler(t, "its own number")
	e.PageTimeout = 10 * time.Second
	_, texts, err := readAll(t, e, nil, 1)
	if err == nil || len(texts) != 1 {
		t.Fatalf("read %q, %v; want one page and a timeout", texts, err)
	}
	pid, err := strconv.Atoi(texts[0])
	if err != nil {
		t.Fatal(err)
	}
	// What is left of a killed process may take a while to die, and may wait for
	// the system to clear it. One that was not killed sleeps for an hour.
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("the program still runs: %s", state)
		}
	}
}

func TestF73EndlessOutputCostsTheParentNoMemory(t *testing.T) {
	for _, name := range []string{"endless text", "endless stderr", "endless form feeds", "info is endless"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := readAll(t, fakePoppler(t, name), nil, 1)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; err == nil || grown > 8<<20 {
			t.Errorf("%s: the parent allocated %d bytes, and the error is %v", name, grown, err)
		}
	}
}

func TestF17ProgramEndsWithTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	for _, name := range []string{"hang at once", "hang on page 3", "info hangs", "images hang"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(300*time.Millisecond, func() { cancel(jobs.ErrDrained) })
			d := newFixture(t, fakePoppler(t, name))
			d.put(t, "in.pdf", "a document")
			if _, err := d.run(ctx, jobs.Job{ID: "j", Input: "in.pdf"}); !errors.Is(err, jobs.ErrDrained) {
				t.Errorf("run: %v, want the cause", err)
			}
		})
	}
}

func TestF16ProgramThatIsRemovedIsNotTheJobsFault(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"pdftotext", "pdfinfo", "pdfimages"} {
		t.Run(program, func(t *testing.T) {
			e := fakePoppler(t, "info is garbage")
			if err := os.Remove(filepath.Join(filepath.Dir(e.Programs.Text), program)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := readAll(t, e, nil, 1); !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("read: %v, want ErrUnavailable", err)
			}
		})
	}
}

func TestF74MissingProgramsAreNamedWithTheirPackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := FindPoppler(t.Context())
	if !errors.Is(err, ErrNoPoppler) || !strings.Contains(err.Error(), "poppler-utils") {
		t.Errorf("find: %v, want the name of the package", err)
	}
	dir := fakePrograms(t, "another's")
	t.Setenv("PATH", dir)
	if _, err := FindPoppler(t.Context()); err == nil || errors.Is(err, ErrNoPoppler) || !strings.Contains(err.Error(), "is not poppler's") {
		t.Errorf("find another's programs: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "pdfimages")); err != nil {
		t.Fatal(err)
	}
	if _, err := FindPoppler(t.Context()); !errors.Is(err, ErrNoPoppler) || !strings.Contains(err.Error(), "pdfimages") {
		t.Errorf("find with pdfimages missing: %v", err)
	}
}

func TestF74VersionOfPopplerIsFound(t *testing.T) {
	t.Parallel()
	if v := installed(t).Programs.Version; v == "" || strings.Trim(v, "0123456789.") != "" {
		t.Errorf("version %q", v)
	}
}

func TestF74ParseInfo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in, want string
	}{
		{"nothing", "", ""},
		{"no count", "Title: a\n", ""},
		{"no number", "Pages: many\n", ""},
		{"later count wins", "Title: a\nPages: 9\nTagged: no\nPages: 5\n", `{"pages":5,"info":{"version":"","encrypted":false,"title":"a Pages: 9"}}`},
		{"encrypted", "Pages: 1\nEncrypted: yes (print:yes)\nPDF version: 1.6\n", `{"pages":1,"info":{"version":"1.6","encrypted":true}}`},
		{"value with a colon", "Title: a: b\nTagged: no\nPages: 1", `{"pages":1,"info":{"version":"","encrypted":false,"title":"a: b"}}`},
		{"poppler's own lines end a value", "Producer: p\nCustom Metadata: no\nTagged: no\nPages: 1", `{"pages":1,"info":{"version":"","encrypted":false,"producer":"p"}}`},
		{"zones", "CreationDate: 2015-03-04T12:00:00-05\nModDate: 2015-03-04T12:00:00Z\nPages: 1", `{"pages":1,"info":{"version":"","encrypted":false,"created":"2015-03-04T17:00:00Z","modified":"2015-03-04T12:00:00Z"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			about, err := parseInfo([]byte(tt.in))
			got := ""
			if err == nil {
				text, _ := json.Marshal(about)
				got = string(text)
			}
			if got != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}
