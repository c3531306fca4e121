package cos_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

func TestF70Tokens(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"numbers", "1 -2 +3 4.5 -.5 6. 00012", "int 1, int -2, int 3, real 4.5, real -0.5, real 6, int 12"},
		{"numbers of bad writers", "--7 1-2 12.-34 .", "int -7, int 1, real 12, real 0"},
		{"huge numbers", "100000000000000000 " + strings.Repeat("9", 400), "real 1e+17, real 0"},
		{"words that begin like numbers", "1.2.3 4a -", "word 1.2.3, word 4a, word -"},
		{"names", "/Type /A#20B / /a/b /C#zz #", "name Type, name A B, name , name a, name b, name C#zz, word #"},
		{"strings", "(a(b)c) () (\\(\\)\\\\)", "string a(b)c, string , string ()\\"},
		{"escapes", `(\n\r\t\b\f\101\7x\
y\q)`, "string \n\r\t\b\fA\ax" + "yq"},
		{"octal above a byte", `(\501)`, "string A"},
		{"line ends in strings", "(a\r\nb\rc\nd)", "string a\nb\nc\nd"},
		{"string without an end", "(ab(c)", "string ab(c)"},
		{"escape without an end", `(ab\`, "string ab"},
		{"hex strings", "<48 65 6c6C6F> <4> <> <4?8", "string Hello, string @, string , string H"},
		{"brackets", "[<<>>]", "[, <<, >>, ]"},
		{"stray ends", "a > b ) c }", "word a, word b, word ), word c, word }"},
		{"comments", "1 % 2 (\r3%", "int 1, int 3"},
		{"operators without blanks", "1(a)Tj[2]TJ/F 3Tf", "int 1, string a, word Tj, [, int 2, ], word TJ, name F, word 3Tf"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := cos.NewLexer([]byte(tt.src))
			var got []string
			for {
				token := l.Next()
				if token.Kind == cos.EOF {
					break
				}
				got = append(got, show(token))
				l.Recycle()
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func show(t cos.Token) string {
	switch t.Kind {
	case cos.Integer:
		return fmt.Sprintf("int %v", t.Number)
	case cos.Real:
		return fmt.Sprintf("real %v", t.Number)
	case cos.StringToken:
		return "string " + string(t.Bytes)
	case cos.NameToken:
		return "name " + string(t.Bytes)
	case cos.Keyword:
		return "word " + string(t.Bytes)
	case cos.ArrayOpen:
		return "["
	case cos.ArrayClose:
		return "]"
	case cos.DictOpen:
		return "<<"
	case cos.DictClose:
		return ">>"
	case cos.EOF:
	}
	return "end"
}

// Tokens must survive those after them until they are recycled: the operands
// of one operator are kept together.
func TestTokensLiveUntilRecycled(t *testing.T) {
	l := cos.NewLexer([]byte(strings.Repeat(`(\141bc) <646566> /g#68i `, 50)))
	var got []string
	var tokens []cos.Token
	for range 150 {
		tokens = append(tokens, l.Next())
	}
	for _, token := range tokens {
		got = append(got, string(token.Bytes))
	}
	if got := strings.Join(got, ""); got != strings.Repeat("abcdefghi", 50) {
		t.Errorf("got %.60q…", got)
	}
}

func TestF71InlineImageIsSkipped(t *testing.T) {
	tests := []struct {
		name, src string
		image     cos.InlineImage
		want      string
	}{
		{"plain", "ID \x01\x02\xff EI Q", cos.InlineImage{}, "word Q"},
		{"EI inside the data", "ID aEI \x01EI \x02 EI \x03\x04\x05 EI\nQ", cos.InlineImage{}, "word Q"},
		{"without an end", "ID \x01\x02", cos.InlineImage{}, "end"},
		{"at the end", "ID \x01\x02\nEI", cos.InlineImage{}, "end"},
		{"EI right after the data", "ID \x80\x81EI Q", cos.InlineImage{}, "word Q"},
		{"EI before something binary", "ID \x80 EI (\x80\x81\x82) Q", cos.InlineImage{}, "string \x80\x81\x82"},
		{"known length", "ID ab EI cEI Q", cos.InlineImage{Length: 7}, "word Q"},
		{"wrong length", "ID ab EI Q", cos.InlineImage{Length: 1}, "word Q"},
		{"length beyond the end", "ID ab EI Q", cos.InlineImage{Length: 1 << 40}, "word Q"},
		{"end of hexadecimal data", "ID 80 EI 81>EI Q", cos.InlineImage{End: ">"}, "word Q"},
		{"end of base 85 data", "ID J, EI x~>\nEI Q", cos.InlineImage{End: "~>"}, "word Q"},
		{"data without their end", "ID J, EI Q", cos.InlineImage{End: "~>"}, "word Q"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := cos.NewLexer([]byte(tt.src))
			l.Next()
			l.SkipInlineImage(tt.image)
			if got := show(l.Next()); got != tt.want {
				t.Errorf("next is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF70Objects(t *testing.T) {
	tests := []struct {
		name, src string
		want      cos.Object
	}{
		{"constants", "[true false null]", cos.Array{true, false, nil}},
		{"references", "[1 2 R 3 4 5 R 6]", cos.Array{cos.Ref{Num: 1, Gen: 2}, 3, cos.Ref{Num: 4, Gen: 5}, 6}},
		{"reference alone", "7 0 R", cos.Ref{Num: 7}},
		{"references in dictionaries", "<</A 1 0 R/B 1/C 2 3>>", cos.Dict{"A": cos.Ref{Num: 1}, "B": 1, "C": 2}},
		{"null is a missing key", "<</A null /B true>>", cos.Dict{"B": true}},
		{"nested", "<</A [<</B (c)>>] /D<</E/F>>>>", cos.Dict{"A": cos.Array{cos.Dict{"B": cos.String("c")}}, "D": cos.Dict{"E": cos.Name("F")}}},
		{"last of two equal keys", "<</A 1 /A 2>>", cos.Dict{"A": 2}},
		{"keys without values", "<</A /B>>", cos.Dict{"A": cos.Name("B")}},
		{"value missing", "<</A>>", cos.Dict{}},
		{"rubbish in place of a key", "<<1 (x) foo /A 2>>", cos.Dict{"A": 2}},
		{"array not closed", "<</A [1 2>>", cos.Dict{"A": cos.Array{1, 2}}},
		{"dictionary not closed", "<</A 1 endobj 2 0 obj <</B 2>>", cos.Dict{"A": 1}},
		{"array not closed at all", "[1 2 endobj 3]", cos.Array{1, 2}},
		{"R without numbers", "[R 1 R]", cos.Array{1}},
		{"negative reference", "[-1 0 R]", cos.Array{-1, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, word, ok := cos.NewParser([]byte(tt.src)).Next()
			if diff := cmp.Diff(tt.want, got); diff != "" || word != "" || !ok {
				t.Errorf("word %q, ok %v: %s", word, ok, diff)
			}
		})
	}
}

func FuzzParser(f *testing.F) {
	f.Add([]byte(`1 0 obj <</A [1 2 R (x\)y) <41> /B#20] >> stream`))
	f.Add([]byte("[[[<<<</A<<"))
	f.Add([]byte("-.5 +1 1.e5 9999999999999999999"))
	f.Fuzz(func(t *testing.T, src []byte) {
		p := cos.NewParser(src)
		for n := 0; ; n++ {
			if _, _, ok := p.Next(); !ok {
				break
			}
			if n > len(src) {
				t.Fatalf("%d objects in %d bytes", n, len(src))
			}
		}
		l := cos.NewLexer(src)
		for n := 0; l.Next().Kind != cos.EOF; n++ {
			if n > len(src) {
				t.Fatalf("%d tokens in %d bytes", n, len(src))
			}
		}
	})
}
