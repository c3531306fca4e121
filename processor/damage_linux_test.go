package processor

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// fontless is a document of two pages. The second shows text in a font
// that is not there.
func fontless() []byte {
	b := pdftest.Pages("in order", "and not")
	b.Set(7, "<</Type /Page /Parent 2 0 R /Contents 6 0 R /Resources <</Font <</F 99 0 R>>>>>>")
	return b.Table("")
}

func TestF76DamageIsInTheResult(t *testing.T) {
	t.Parallel()
	whole := testdata(t, "groff.pdf")
	tests := []struct {
		name    string
		data    []byte
		pages   int // damaged, as the built-in engine says: poppler does not say which
		warning string
	}{
		{"a font is missing", fontless(), 1, "page 2: a font is missing"},
		{"the end is missing", bytes.Replace(whole, []byte("startxref"), []byte("startxxxx"), 1), 0, "the cross-reference was rebuilt from the objects that are there"},
	}
	onEachEngine(t, func(t *testing.T, engine func(func(*PDF)) Engine) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				d := newFixture(t, engine(asIs))
				d.put(t, "in.pdf", string(tt.data))
				result := d.mustRun(t, jobs.Job{ID: "j", Input: "in.pdf"})
				s := d.summary(t)
				if !s.Damaged || !result.Damaged || len(s.Warnings) == 0 || s.FailedPages > 0 {
					t.Errorf("result %+v, summary %+v; want a damaged document", result, s)
				}
				if d.Engine.Name() != "builtin" {
					return
				}
				if s.DamagedPages != tt.pages || result.DamagedPages != tt.pages || s.Warnings[0] != tt.warning {
					t.Errorf("%d damaged pages, warnings %q; want %d, %q", s.DamagedPages, s.Warnings, tt.pages, tt.warning)
				}
				again, found, err := d.Earlier(t.Context(), jobs.Job{ID: "j", Input: "in.pdf"})
				if err != nil || !found || again != result {
					t.Errorf("earlier result %+v, %v, %v; want %+v", again, found, err, result)
				}
			})
		}
	})
}

func TestF76StrictFailsADamagedDocument(t *testing.T) {
	t.Parallel()
	strict := func(p *PDF) { p.Strict = "PDF_ON_DAMAGE=fail" }
	onEachEngine(t, func(t *testing.T, engine func(func(*PDF)) Engine) {
		for name, data := range map[string][]byte{
			"page": fontless(), "document": bytes.Replace(pdftest.Pages("still there").Table(""), []byte("startxref"), []byte("startxxxx"), 1),
		} {
			d := newFixture(t, engine(strict))
			d.put(t, "in.pdf", string(data))
			_, err := d.run(t.Context(), jobs.Job{ID: "j", Input: "in.pdf"})
			if err == nil || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "document is damaged: ") {
				t.Errorf("damage of the %s: %v; want the failure of the document", name, err)
			}
			d.wantNothingLeft(t)
		}
		d := newFixture(t, engine(strict))
		d.put(t, "in.pdf", string(testdata(t, "groff.pdf")))
		if s := d.mustRun(t, jobs.Job{ID: "j", Input: "in.pdf"}); s.Damaged {
			t.Errorf("a healthy document: %+v", s)
		}
	})
}

func TestF76WarningsOfAChildAreBounded(t *testing.T) {
	t.Parallel()
	var got []string
	c := childReplies{next: 1, out: Sink{
		Open: func(int, json.RawMessage) error { return nil },
		Warn: func(w string) error { got = append(got, w); return nil },
	}}
	opened := pdfOpened{Warnings: make([]string, 1000)}
	for i := range opened.Warnings {
		opened.Warnings[i] = strings.Repeat("long", 1000)
	}
	for _, r := range []pdfReply{{Opened: &opened}, {Done: true, Late: opened.Warnings}} {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.reply(line); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != maxDocumentWarnings || len(got[0]) > maxFailure {
		t.Errorf("%d warnings of %d bytes", len(got), len(got[0]))
	}
}

func TestF76PopplersReportsOfDamage(t *testing.T) {
	t.Parallel()
	var d damageLog
	for _, b := range []byte(strings.Repeat("Syntax Warning: Could not parse ligature component\n", 1000) +
		"Syntax Error (12): No font\nSyntax Error (12): No font\nInternal Error: \x00odd\xff\nSyntax Error: cut") {
		d.add([]byte{b}) // however it comes
	}
	d.endLine()
	want := "Syntax Error (12): No font|Internal Error: odd|Syntax Error: cut"
	if got := strings.Join(d.lines, "|"); got != want {
		t.Errorf("reports %q, want %q", got, want)
	}
	d.add([]byte(strings.Repeat("Syntax Error: more\n", 10) + strings.Repeat("x", 5000) + "\nSyntax Error: " + strings.Repeat("x", 5000)))
	d.endLine()
	if len(d.lines) != 5 || len(d.lines[4]) != maxDamageLine || cap(d.rest) > 4*maxDamageLine {
		t.Errorf("reports %q", d.lines)
	}
}

func TestF76PopplersReportsBehindManyWarningsCount(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fakePoppler(t, "warn, then report"))
	d.put(t, "in.pdf", "whatever")
	if r := d.mustRun(t, jobs.Job{ID: "j", Input: "in.pdf"}); !r.Damaged {
		t.Errorf("result %+v, want a damaged document", r)
	}
}

// TestF76DamageBeforeACheckpointIsNotForgotten: poppler's reports are in no checkpoint.
func TestF76DamageBeforeACheckpointIsNotForgotten(t *testing.T) {
	t.Parallel()
	poppler := installed(t)
	b := pdftest.Pages("one", "two", "three", "four")
	b.Set(5, "<</Type /Page /Parent 2 0 R /Contents 6 0 R /Resources <</Font <</F 99 0 R>>>>>>") // page 1
	path := onDisk(t, b.Table(""))
	for from, want := range map[int]string{1: "1234", 2: "234", 4: "4", 5: ""} {
		pages, warnings := "", 0
		err := poppler.Read(t.Context(), jobs.Job{}, path, from, Sink{
			Open: func(int, json.RawMessage) error { return nil },
			Page: func(r Record) error { pages += strconv.Itoa(r.Page); return nil },
			Warn: func(string) error { warnings++; return nil },
		})
		if err != nil || pages != want || warnings == 0 {
			t.Errorf("from page %d: pages %s, %d warnings, %v; want %s and warnings", from, pages, warnings, err, want)
		}
	}
}
