package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
)

func TestF75WordsAreCountedAsAMultiset(t *testing.T) {
	tests := []struct {
		name, a, b string
		want       float64
	}{
		{"equal but for white space", "one  two\nthree", "three\fone two", 1},
		{"a ligature and a full-width letter", "ﬁnal Ａ", "final A", 1},
		{"nothing in common", "one two", "three", 0},
		{"a word once too often", "a a b", "a b", 0.8},
		{"symbols are no words", "a * \ufffd \ue000 b", "a \x10 b", 1},
		{"control characters are no part of a word", "a\x10b\u008d c", "ab c", 1},
		{"symbols in a word are", "a* b", "a b", 0.5},
		{"marks of direction are no part of a word", "\u202b\u05d0\u05d1\u202c c", "\u05d0\u05d1 c", 1},
		{"no words at all", " ", "", 1},
		{"no words on one side", "one", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := f1(countWords([]byte(tt.a)), countWords([]byte(tt.b)))
			if back := f1(countWords([]byte(tt.b)), countWords([]byte(tt.a))); math.Abs(got-tt.want) > 1e-9 || got != back {
				t.Errorf("got %v, and %v the other way; want %v", got, back, tt.want)
			}
		})
	}
}

func TestF75ScriptsAreTold(t *testing.T) {
	latin := strings.Repeat("plain words ", 20) // 220 characters
	tests := []struct {
		name, text string
		cjk, rtl   bool
	}{
		{"latin", latin, false, false},
		{"two Han characters in 222", latin + "文字", false, false},
		{"three Han characters in 223", latin + "文字文", true, false},
		{"kana", "かな", true, false},
		{"Hangul", "한글", true, false},
		{"Arabic", "قاعة", false, true},
		{"Hebrew", "ספר", false, true},
		{"nothing", "", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if cjk, rtl := isCJK([]byte(tt.text)), isRightToLeft([]byte(tt.text)); cjk != tt.cjk || rtl != tt.rtl {
				t.Errorf("CJK %v, right to left %v; want %v, %v", cjk, rtl, tt.cjk, tt.rtl)
			}
		})
	}
}

func TestF75PagesThatHaveTextAreCompared(t *testing.T) {
	a, b := pages([]byte("text\f\n\ftext\f")), pages([]byte("words\fwords\f"))
	if same, of := sameHasText(a, b); same != 1 || of != 3 {
		t.Errorf("%d of %d pages agree, want 1 of 3", same, of)
	}
	if n := len(pages([]byte("no form feed"))); n != 0 {
		t.Errorf("%d pages without a form feed", n)
	}
}

func TestF72ManyPagesAreAsMany(t *testing.T) {
	for _, fan := range []int{0, 10} {
		data := manyPages(1234, fan).Table("")
		d, err := pdf.Open(bytes.NewReader(data), int64(len(data)), pdf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Page(1234)
		if d.NumPages() != 1234 || strings.TrimSpace(p.Text) != "page 1234 of many" || err != nil {
			t.Errorf("%d kids: %d pages, the last: %q, %v", fan, d.NumPages(), p.Text, err)
		}
	}
}

func TestF75MutantsAreTheSameEveryTime(t *testing.T) {
	parent := manyPages(3, 0).Table("")
	before := bytes.Clone(parent)
	different := 0
	for seed := range uint64(50) {
		mutant := mutate(parent, seed)
		if !bytes.Equal(mutant, mutate(parent, seed)) {
			t.Errorf("seed %d gives two mutants", seed)
		}
		if !bytes.Equal(mutant, parent) {
			different++
		}
	}
	if !bytes.Equal(parent, before) {
		t.Error("the parent is changed")
	}
	if different < 45 {
		t.Errorf("only %d of 50 mutants differ from their parent", different)
	}
}
