package processor

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func split(r io.Reader) (pages []string, cut int, err error) {
	err = splitPages(r, func(text []byte, whole bool) error {
		pages = append(pages, string(text))
		if !whole {
			cut++
		}
		return nil
	})
	return pages, cut, err
}

func TestF74PagesEndAtFormFeedsWhereALineWouldBegin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in  string
		want      []string
		truncated bool
	}{
		{"nothing", "", nil, false},
		{"one page", "a\n\f", []string{"a\n"}, false},
		{"blank pages", "\f\f", []string{"", ""}, false},
		{"blank between", "a\n\f\fb\n\f", []string{"a\n", "", "b\n"}, false},
		{"in a word", "a\fb\n\f", []string{"a b\n"}, false},
		{"two in a word", "a\f\fb\n\f", []string{"a  b\n"}, false},
		{"cut off", "a\n\fb", []string{"a\n"}, true},
		{"cut off after a line", "a\n\fb\n", []string{"a\n"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
				got, cut, err := split(r)
				if !slices.Equal(got, tt.want) || cut > 0 || errors.Is(err, errTruncated) != tt.truncated {
					t.Errorf("%s: got %q, %v; want %q, cut off %t", name, got, err, tt.want, tt.truncated)
				}
			}
		})
	}
}

func TestF74LongPageIsCutAndTheNextIsNot(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcde\n", maxPageText/16+10)
	got, cut, err := split(strings.NewReader(long + "\fnext\n\f"))
	if err != nil || len(got) != 2 || cut != 1 || got[0] != long[:maxPageText] || got[1] != "next\n" {
		t.Errorf("%d pages, %d cut, %v", len(got), cut, err)
	}
	rec := textRecord(7, []byte(strings.Repeat("報", maxPageText/3+1))[:maxPageText], false)
	if !utf8.ValidString(rec.Text) || len(rec.Text) > maxPageText || rec.Warning != "page 7: text cut after 4194304 bytes" || !rec.HasText {
		t.Errorf("text of %d bytes, warning %q", len(rec.Text), rec.Warning)
	}
}

func TestF74ReadErrorsAreNotTheEnd(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	if _, _, err := split(io.MultiReader(strings.NewReader("a\n\fb"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
	if err := splitPages(strings.NewReader("a\n\fb\n\f"), func([]byte, bool) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the page's error", err)
	}
}

func FuzzSplitPages(f *testing.F) {
	for _, seed := range []string{"", "a\n\f", "\f\f", "a\fb\n\f", "\xff\n\f\fx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole, _, err := split(strings.NewReader(in))
		bytewise, _, err2 := split(iotest.OneByteReader(strings.NewReader(in)))
		if !slices.Equal(whole, bytewise) || (err == nil) != (err2 == nil) {
			t.Errorf("pages depend on how they come: %q, %v and %q, %v", whole, err, bytewise, err2)
		}
		if err == nil && strings.Join(whole, "") != strings.ReplaceAll(joinEnds(in), "\f", " ") {
			t.Errorf("text was lost: %q from %q", whole, in)
		}
		for i, text := range whole {
			if rec := textRecord(i+1, []byte(text), true); !utf8.ValidString(rec.Text) || rec.Words != len(strings.Fields(rec.Text)) {
				t.Errorf("page %q became %+v", text, rec)
			}
		}
	})
}

// joinEnds removes the form feeds that end pages.
func joinEnds(in string) string {
	var out strings.Builder
	before := '\f'
	for _, b := range []byte(in) {
		if b == '\f' && (before == '\n' || before == '\f') {
			before = '\f'
			continue
		}
		out.WriteByte(b)
		if before = rune(b); b == '\f' {
			before = ' '
		}
	}
	return out.String()
}

func FuzzParseInfo(f *testing.F) {
	f.Add("Title:  a\nb\nCreationDate: 2015-03-04T12:00:00+01\nPages: 5\nEncrypted: no\nPDF version: 1.4\n")
	f.Add("Pages: 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, in string) {
		about, err := parseInfo([]byte(in))
		if err == nil && about.Pages < 0 || len(about.Info.Title) > maxMetadata || !utf8.ValidString(about.Info.Title+about.Info.Version) {
			t.Errorf("parsed %+v, %v", about, err)
		}
	})
}
