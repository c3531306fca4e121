package markup

import (
	"fmt"
	"strings"
)

// escape gives each value of a template the escaping of its place. A template begins and ends in text.
func (s *Set) escape(name string) error {
	end, err := s.walk(s.templates[name], place{})
	if err == nil && end != (place{}) {
		err = fmt.Errorf("it ends %s", end)
	}
	return err
}

// walk returns the place behind the nodes.
func (s *Set) walk(nodes []node, at place) (place, error) {
	for _, n := range nodes {
		var err error
		line := 0
		switch n := n.(type) {
		case *text:
			at, err = at.after(n.text)
			if err != nil {
				return at, err
			}
		case *value:
			line = n.line
			n.escape, err = at.escaper()
			at = at.filled()
		case *branch:
			line = n.line
			at, err = s.both(n.then, n.orls, at)
		case *loop:
			line = n.line
			before := at
			if at, err = s.both(n.body, n.orls, at); err == nil && at != before {
				err = fmt.Errorf("the body of a range begins %s and ends %s", before, at)
			}
		case *include:
			line = n.line
			if _, ok := s.templates[n.name]; !ok {
				err = fmt.Errorf("there is no template %q", n.name)
			} else if at != (place{}) {
				err = fmt.Errorf("template %q is called %s, want in text", n.name, at)
			}
		}
		if err != nil {
			if line > 0 {
				err = fmt.Errorf("line %d: %w", line, err)
			}
			return at, err
		}
	}
	return at, nil
}

func (s *Set) both(a, b []node, at place) (place, error) {
	first, err := s.walk(a, at)
	if err != nil {
		return at, err
	}
	other, err := s.walk(b, at)
	if first.state == inTag && other.state == inTag {
		first.open = first.open || other.open
		other.open = first.open
	}
	if err == nil && first != other {
		err = fmt.Errorf("one branch ends %s, the other %s", first, other)
	}
	return first, err
}

// escaper returns how a value is escaped that stands there.
func (p place) escaper() (func(string) string, error) {
	inAttr := p.state == inValue
	switch {
	case p.state == inText, p.state == inTitle, inAttr && p.kind == plainAttr:
		return escapeHTML, nil
	case inAttr && p.kind == urlAttr:
		return p.url.escaper(), nil
	}
	return nil, fmt.Errorf("no value may stand %s", p)
}

func (u urlPart) escaper() func(string) string {
	switch u {
	case urlStart:
		return func(s string) string { return escapeHTML(encodeURL(safeURL(s), true)) }
	case urlPath:
		return func(s string) string { return escapeHTML(encodeURL(s, true)) }
	default:
		return func(s string) string { return encodeURL(s, false) }
	}
}

var htmlEscapes = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;")

// escapeHTML escapes a text for text and for quoted attributes.
func escapeHTML(s string) string { return htmlEscapes.Replace(s) }

// noURL is what a URL becomes that is refused.
const noURL = "#refused"

// safeURL returns a URL that is relative or has the scheme http or https, and noURL for others.
func safeURL(s string) string {
	scheme, _, ok := strings.Cut(s, ":")
	if ok && !strings.Contains(scheme, "/") && !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return noURL
	}
	return s
}

// encodeURL encodes what cannot stand in a URL, and, unless it is a whole one or a part of its path, also what has a meaning there.
func encodeURL(s string, whole bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		case whole && strings.IndexByte("!#$&*+,/:;=?@[]", c) >= 0:
			b.WriteByte(c)
		case whole && c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
