// Package oracle compares the grid's matching of subjects with that of NATS itself. It is a module of its own, so that the server
// of NATS is no part of batchfleet.
package oracle

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"

	"github.com/batchfleet/batchfleet/grid/subject"
)

// trie reports whether a subject matches a pattern in the tree that a server of NATS keeps its subscriptions in.
func trie(t *testing.T, pattern, s string) bool {
	t.Helper()
	list := gsl.NewSublist[string]()
	if err := list.Insert(pattern, pattern); err != nil {
		t.Fatalf("insert %q: %v", pattern, err)
	}
	return list.HasInterest(s)
}

// embeds reports whether a token has a wildcard and something else.
func embeds(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if len(token) > 1 && strings.ContainsAny(token, "*>") {
			return true
		}
	}
	return false
}

// compare checks that the grid takes what NATS takes, but for wildcards within a token and NULs, and that both match alike.
func compare(t *testing.T, pattern, s string) {
	t.Helper()
	literal := server.IsValidSubject(s) && server.IsValidLiteralSubject(s)
	if got, want := subject.CheckPattern(pattern) == nil, server.IsValidSubject(pattern) && !embeds(pattern) && fits(pattern); got != want {
		t.Errorf("pattern %q: accepted %t, want %t", pattern, got, want)
	}
	if got, want := subject.CheckSubject(s) == nil, literal && !embeds(s) && fits(s); got != want {
		t.Errorf("subject %q: accepted %t, want %t", s, got, want)
	}
	if !server.IsValidSubject(pattern) || !literal {
		return
	}
	got := subject.Match(pattern, s)
	if want := trie(t, pattern, s); got != want {
		t.Errorf("Match(%q, %q) = %t, and the tree of NATS has %t", pattern, s, got, want)
	}
	if want := server.SubjectMatchesFilter(s, pattern); got != want && !embeds(pattern) && !embeds(s) {
		t.Errorf("Match(%q, %q) = %t, and the filter of NATS has %t", pattern, s, got, want)
	}
}

func fits(s string) bool { return len(s) <= subject.MaxLen && !strings.Contains(s, "\x00") }

func TestG26MatchesAsNATSWhereMatchersDisagree(t *testing.T) {
	for _, test := range []struct{ subject, pattern string }{
		{"job.assign", "job.assign.>"},
		{"job.assign.abc", "job.assign.*x"},
		{"job.assign.a", "job.>.a"},
		{"job.assign.a.", "job.assign.>"},
		{"", ">"},
		{"job.assign.>", "job.assign.*"},
		{"job..a", "job.*.a"},
		{"job.assign.A", "job.assign.a"},
		{"job.assign.a", "job.assign.a"},
		{"job.assign.a", "job.assign.*"},
		{"job.assign.a.b", "job.assign.*"},
		{"job.assign.a.b", "job.assign.>"},
		{"job.assign.a b", "job.assign.*"},
		{"a\x00", "a\x00"},
		{strings.Repeat("a.", 256) + "a", ">"},
	} {
		compare(t, test.pattern, test.subject)
	}
}

func TestG26MatchesAsNATSAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	matched := 0
	for range 200_000 {
		pattern, s := name(random, 0.3), name(random, 0.02)
		compare(t, pattern, s)
		if subject.CheckPattern(pattern) == nil && subject.CheckSubject(s) == nil && subject.Match(pattern, s) {
			matched++
		}
		if t.Failed() {
			return
		}
	}
	if matched < 1000 {
		t.Errorf("only %d pairs match: the comparison shows little", matched)
	}
}

func TestG26ManyPatternsMatchAsNATS(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	tree := gsl.NewSublist[string]()
	patterns := map[string]bool{}
	for len(patterns) < 1000 {
		if p := name(random, 0.3); subject.CheckPattern(p) == nil && !patterns[p] {
			patterns[p] = true
			if err := tree.Insert(p, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	for rounds := 0; rounds < 2000; {
		s := name(random, 0)
		if subject.CheckSubject(s) != nil {
			continue
		}
		rounds++
		var got, want []string
		tree.Match(s, func(p string) { want = append(want, p) })
		for p := range maps.Keys(patterns) {
			if subject.Match(p, s) {
				got = append(got, p)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%q matches %q, and in the tree %q", s, got, want)
		}
	}
}

// name returns up to six tokens of few letters, so that many are equal. A part of them are wildcards, and some are odd.
func name(random *rand.Rand, wild float64) string {
	tokens := make([]string, 1+random.IntN(6))
	for i := range tokens {
		switch p := random.Float64(); {
		case p < wild*0.7:
			tokens[i] = "*"
		case p < wild:
			tokens[i] = ">"
			if random.IntN(4) > 0 {
				return strings.Join(tokens[:i+1], ".")
			}
		case p > 0.99:
			tokens[i] = []string{"", " ", "a*", ">>", "*a", "a b", "\t", "a\r", "\x00", "A"}[random.IntN(10)]
		default:
			tokens[i] = string("abc"[random.IntN(3)])
		}
	}
	return strings.Join(tokens, ".")
}
