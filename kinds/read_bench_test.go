package kinds

import (
	"strings"
	"testing"
)

// BenchmarkParse reads files of many kinds like the one of the documents.
func BenchmarkParse(b *testing.B) {
	text := many(1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if set, err := Parse("kinds.toml", text); err != nil || len(set.Kinds) != 2000 {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckParams is what a submission pays.
func BenchmarkCheckParams(b *testing.B) {
	set, err := Parse("kinds.toml", []byte(allTypes))
	if err != nil {
		b.Fatal(err)
	}
	k, raw := set.Get("k"), []byte(`{"title":"a b","dpi":300,"scale":0.5,"grey":true,"mode":"best"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.CheckParams(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkArgv is what an attempt pays.
func BenchmarkArgv(b *testing.B) {
	set, err := Parse("kinds.toml", []byte(thumbnail))
	if err != nil {
		b.Fatal(err)
	}
	k, v := set.Get("thumbnail"), places
	if v.Param, err = k.CheckParams(nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Argv(v); err != nil {
			b.Fatal(err)
		}
	}
}

// many is a file of n times two kinds.
func many(n int) []byte {
	var b strings.Builder
	for i := range n {
		suffix := "-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		b.WriteString(strings.NewReplacer("[thumbnail", "[thumbnail"+suffix, "[plain", "[plain"+suffix).Replace(thumbnail))
	}
	return []byte(b.String())
}
