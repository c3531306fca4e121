package emulator

import (
	"fmt"
	"net/url"
	"strings"
)

// A template is the path of a google.api.http rule, such as
// /v1/{topic=projects/*/topics/*}:publish.
type template struct {
	segments []string // literal, or "*" for any one segment
	vars     []pathVar
	verb     string // without its colon
}

// A pathVar is a field of the request and the segments its value is made of.
type pathVar struct {
	field    string // a field path, "topic.name"
	from, to int
}

// parseTemplate reads the part of the template language that Pub/Sub uses: no
// "**", no nested variables. The error says what it could not read.
func parseTemplate(s string) (template, error) {
	var t template
	rest, ok := strings.CutPrefix(s, "/")
	if !ok {
		return t, fmt.Errorf("parse template %q: no leading slash", s)
	}
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '}') {
		rest, t.verb = rest[:i], rest[i+1:]
	}
	for rest != "" {
		var part string
		if strings.HasPrefix(rest, "{") {
			part, rest, ok = strings.Cut(rest[1:], "}")
			if !ok {
				return t, fmt.Errorf("parse template %q: unclosed brace", s)
			}
			field, pattern, ok := strings.Cut(part, "=")
			if !ok {
				pattern = "*"
			}
			from := len(t.segments)
			t.segments = append(t.segments, strings.Split(pattern, "/")...)
			t.vars = append(t.vars, pathVar{field, from, len(t.segments)})
		} else {
			i := strings.IndexByte(rest+"/", '/')
			part, rest = rest[:i], rest[i:]
			t.segments = append(t.segments, part)
		}
		rest = strings.TrimPrefix(rest, "/")
	}
	for _, seg := range t.segments {
		if seg == "" || seg != "*" && strings.ContainsAny(seg, "*{}") {
			return t, fmt.Errorf("parse template %q: segment %q", s, seg)
		}
	}
	return t, nil
}

// match returns the values of t's variables in an escaped path, and whether the
// path is one of t's.
func (t *template) match(path string) ([]string, bool) {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, false
	}
	if t.verb != "" {
		if path, ok = strings.CutSuffix(path, ":"+t.verb); !ok {
			return nil, false
		}
	}
	got := strings.Split(path, "/")
	if len(got) != len(t.segments) {
		return nil, false
	}
	for i, want := range t.segments {
		seg, err := url.PathUnescape(got[i])
		if err != nil || seg == "" || want != "*" && seg != want {
			return nil, false
		}
		got[i] = seg
	}
	values := make([]string, len(t.vars))
	for i, v := range t.vars {
		values[i] = strings.Join(got[v.from:v.to], "/")
	}
	return values, true
}
