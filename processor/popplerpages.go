package processor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/batchfleet/batchfleet/jobs"
)

// poppler is a document that poppler's programs read.
type poppler struct {
	programs Programs
	path     string
	password string
	header   string // the version in the first bytes
	about    pdfOpened
	damage   *damageLog
}

func openPoppler(req pdfRequest) (document, error) {
	path, err := filepath.Abs(string(req.Path)) // so that it cannot be taken for an option
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := poppler{programs: *req.Poppler, path: path, password: req.Password, damage: &damageLog{}}
	var head [8]byte
	if n, _ := f.ReadAt(head[:], 0); n == len(head) && string(head[:5]) == "%PDF-" {
		p.header = cleanMetadata(strings.ToValidUTF8(string(head[5:]), ""))
	}
	if p.about, err = p.info(); err != nil {
		return nil, err
	}
	p.about.Warnings = structureWarnings(path, req.Password)
	return p, nil
}

// args returns options and then the names of the input and, of pdftotext, the
// output.
func (p poppler) args(options []string, files ...string) []string {
	if p.password != "" {
		options = append(options, "-upw", p.password, "-opw", p.password)
	}
	return append(append(options, p.path), files...)
}

func (p poppler) opened() pdfOpened { return p.about }

func (p poppler) close() {} // its programs end with the pages

func (p poppler) warnings() []string { return p.damage.lines }

// errStopped ends the reading when the caller wants no more pages.
var errStopped = errors.New("enough pages")

func (p poppler) pages(first, last int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if last < 1 {
			return
		}
		stopped := false
		err := p.text(first, last, func(rec Record) error {
			if stopped = !yield(rec, nil); stopped {
				return errStopped
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Record{}, err)
		}
	}
}

// text passes the pages as pdftotext writes them. It writes those before the first
// one, too. They are passed empty: an earlier attempt has stored them, but not what
// pdftotext reported of their damage.
func (p poppler) text(first, last int, pass func(Record) error) error {
	next, images := 1, imageCounts{poppler: p, last: last}
	options := []string{"-enc", "UTF-8", "-eol", "unix"}
	if last < p.about.Pages { // else a page that pdfinfo has not counted is to be seen
		options = append(options, "-l", strconv.Itoa(last))
	}
	err := runProgram(p.programs.Text, p.args(options, "-"), maxReplies, p.damage, func(r io.Reader) error {
		return splitPages(r, func(text []byte, whole bool) error {
			if next > last {
				return fmt.Errorf("pdftotext wrote a page %d, pdfinfo counts %d", next, p.about.Pages)
			}
			if next < first {
				next++
				return pass(Record{Page: next - 1})
			}
			n, err := images.onPage(next)
			if err != nil {
				return err
			}
			rec := textRecord(next, text, whole)
			rec.Images = n
			next++
			return pass(rec)
		})
	})
	if err == nil && next <= last {
		return fmt.Errorf("pdftotext ended after page %d, pdfinfo counts %d", next-1, p.about.Pages)
	}
	return err
}

// textRecord makes a page of what pdftotext wrote; whole is false if some of that is
// left out already. Words and characters are those of the text that is kept.
func textRecord(n int, text []byte, whole bool) Record {
	rec := Record{Page: n, Text: strings.TrimRight(strings.ToValidUTF8(string(text), "\ufffd"), "\n")}
	if !whole || len(rec.Text) > maxPageText {
		rec.Text = jobs.Clip(rec.Text, maxPageText, "")
		rec.Warning, rec.Failed = fmt.Sprintf("page %d: text cut after %d bytes", n, maxPageText), true
	}
	for range strings.FieldsSeq(rec.Text) {
		rec.Words++
	}
	for _, r := range rec.Text {
		if !unicode.IsSpace(r) {
			rec.Characters++
		}
	}
	rec.HasText = rec.Characters > 0
	return rec
}

// imageCounts counts the images of pages, a range of pages at a time.
type imageCounts struct {
	poppler
	last   int   // the last page that is wanted
	first  int   // the page of counts[0]
	counts []int // images drawn
}

// imageBatch is how many pages one call of pdfimages looks at. One call for
// all is silent for minutes where documents are long, and a call for each page
// costs 30 times as much.
const imageBatch = 1000

// onPage returns how many images a page draws. It is called for pages in order.
func (c *imageCounts) onPage(page int) (int, error) {
	if page >= c.first+len(c.counts) {
		if err := c.count(page, min(page+imageBatch-1, c.last)); err != nil {
			return 0, err
		}
	}
	return c.counts[page-c.first], nil
}

func (c *imageCounts) count(first, last int) error {
	c.first, c.counts = first, make([]int, last-first+1)
	options := []string{"-list", "-f", strconv.Itoa(first), "-l", strconv.Itoa(last)}
	// Damage that it reports, pdftotext reports, too.
	return runProgram(c.programs.Images, c.args(options), maxReplies, &damageLog{}, func(r io.Reader) error {
		rows := bufio.NewScanner(r)
		for rows.Scan() {
			// "   1     0 image       2 …"; masks belong to the image before them.
			columns := strings.Fields(rows.Text())
			if len(columns) < 3 || columns[2] != "image" && columns[2] != "stencil" {
				continue
			}
			if n, err := strconv.Atoi(columns[0]); err == nil && first <= n && n <= last {
				c.counts[n-first]++
			}
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("read from pdfimages: %w", err)
		}
		return nil
	})
}
