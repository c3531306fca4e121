package markup

import (
	"fmt"
	"strings"
)

// place is where in HTML a value stands. The zero value is text.
type place struct {
	state   state
	element string // whose tag or raw text this is
	name    string // of the attribute
	kind    attrKind
	quote   byte // of the attribute's value
	url     urlPart
	open    bool // in a tag, right behind a name, which must not go on
}

type state uint8

const (
	inText state = iota
	inComment
	inTag
	afterName // of an attribute
	beforeValue
	inValue   // with quotes
	inLoose   // without
	inRaw     // a script or a style
	inTitle   // a title or a textarea
	inDoctype // and other markup that begins with <!
)

var stateNames = [...]string{
	"in text", "in a comment", "in a tag", "after the name of an attribute", "in an attribute without quotes",
	"in an attribute", "in an attribute without quotes", "in a script or a style", "in a title or a textarea", "in a declaration",
}

func (p place) String() string {
	s := stateNames[p.state]
	if p.state == inValue {
		s += fmt.Sprintf(" %s of <%s>", p.name, p.element)
	}
	return s
}

type attrKind uint8

const (
	plainAttr attrKind = iota
	urlAttr
	codeAttr // runs code, has styles or a whole document
)

type urlPart uint8

const (
	urlStart urlPart = iota
	urlPath
	urlQuery
)

// filled returns the place behind a value.
func (p place) filled() place {
	if p.state == inValue && p.kind == urlAttr && p.url == urlStart {
		p.url = urlPath
	}
	return p
}

var urlAttrs = map[string]bool{
	"action": true, "archive": true, "background": true, "cite": true, "classid": true, "codebase": true, "data": true, "formaction": true, "href": true,
	"icon": true, "longdesc": true, "manifest": true, "ping": true, "poster": true, "profile": true, "src": true, "usemap": true,
}

func kindOf(name string) attrKind {
	name = strings.TrimPrefix(name, "data-")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	switch {
	case strings.HasPrefix(name, "on"), name == "style", name == "srcdoc", name == "srcset", name == "imagesrcset", name == "http-equiv", name == "xmlns":
		return codeAttr
	case urlAttrs[name], strings.Contains(name, "src"), strings.Contains(name, "uri"), strings.Contains(name, "url"):
		return urlAttr
	default:
		return plainAttr
	}
}

// after returns the place behind a text that begins here.
func (p place) after(s string) (place, error) {
	for s != "" {
		next, n, err := p.step(s)
		if err != nil {
			return p, err
		}
		p, s = next, s[n:]
	}
	if p.state == afterName {
		p = place{state: inTag, element: p.element, open: true}
	}
	return p, nil
}

const blanks = " \t\n\f\r"

// step reads n bytes of a text. Without any, the next place has another state, which reads some.
func (p place) step(s string) (next place, n int, err error) {
	switch p.state {
	case inText:
		return p.text(s)
	case inComment:
		return skipTo(p, s, "-->", place{})
	case inDoctype:
		return skipTo(p, s, ">", place{})
	case inRaw, inTitle:
		end := strings.Index(strings.ToLower(s), "</"+p.element)
		if end < 0 {
			return p, len(s), nil
		}
		return place{state: inTag, element: "/" + p.element}, end + len("</") + len(p.element), nil
	case inTag:
		return p.tag(s)
	case afterName:
		rest := strings.TrimLeft(s, blanks)
		if rest == "" {
			return p, len(s), nil
		}
		if rest[0] == '=' {
			p.state = beforeValue
			return p, len(s) - len(rest) + 1, nil
		}
		return place{state: inTag, element: p.element}, len(s) - len(rest), nil
	case beforeValue:
		return p.value(s)
	case inValue:
		return p.quoted(s)
	default: // inLoose
		n := strings.IndexAny(s, blanks+">")
		if n < 0 {
			return p, len(s), nil
		}
		return place{state: inTag, element: p.element}, n, nil
	}
}

func skipTo(p place, s, mark string, next place) (place, int, error) {
	n := strings.Index(s, mark)
	if n < 0 {
		return p, len(s), nil
	}
	return next, n + len(mark), nil
}

func (p place) text(s string) (place, int, error) {
	n := strings.IndexByte(s, '<')
	switch {
	case n < 0:
		return p, len(s), nil
	case strings.HasPrefix(s[n:], "<!--"):
		return place{state: inComment}, n + 4, nil
	case strings.HasPrefix(s[n:], "<!"):
		return place{state: inDoctype}, n + 2, nil
	}
	name := s[n+1:]
	if end := strings.IndexAny(name, blanks+">"); end >= 0 {
		name = name[:end]
	}
	n += 1 + len(name)
	name = strings.ToLower(strings.TrimSuffix(name, "/"))
	if plain := strings.TrimPrefix(name, "/"); plain == "" || strings.Trim(plain, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return p, 0, fmt.Errorf("%.40q is no element: write &lt; for <", s[n-len(name)-1:])
	}
	return place{state: inTag, element: name, open: true}, n, nil
}

func (p place) tag(s string) (place, int, error) {
	rest := strings.TrimLeft(s, blanks+"/")
	n := len(s) - len(rest)
	switch {
	case p.open && n == 0 && s[0] != '>':
		return p, 0, fmt.Errorf("a name in the tag %s goes on after an action", p.element)
	case rest == "":
		p.open = false
		return p, n, nil
	case rest[0] == '>':
		switch p.element {
		case "script", "style":
			return place{state: inRaw, element: p.element}, n + 1, nil
		case "title", "textarea":
			return place{state: inTitle, element: p.element}, n + 1, nil
		}
		return place{}, n + 1, nil
	}
	end := strings.IndexAny(rest, blanks+"=>/")
	if end < 0 {
		end = len(rest)
	}
	name := strings.ToLower(rest[:end])
	if name == "" || strings.ContainsAny(name, "\"'<`") {
		return p, 0, fmt.Errorf("%.40q is no attribute", rest)
	}
	return place{state: afterName, element: p.element, name: name, kind: kindOf(name)}, n + end, nil
}

func (p place) value(s string) (place, int, error) {
	rest := strings.TrimLeft(s, blanks)
	n := len(s) - len(rest)
	switch {
	case rest == "":
		return p, n, nil
	case rest[0] == '"', rest[0] == '\'':
		p.state, p.quote = inValue, rest[0]
		return p, n + 1, nil
	case rest[0] == '>':
		return p, 0, fmt.Errorf("attribute %s has no value", p.name)
	}
	p.state = inLoose
	return p, n, nil
}

func (p place) quoted(s string) (place, int, error) {
	end := strings.IndexByte(s, p.quote)
	content := s
	if end >= 0 {
		content = s[:end]
	}
	if content != "" && p.kind == urlAttr {
		if p.url == urlStart {
			p.url = urlPath
		}
		if strings.ContainsAny(content, "?#") {
			p.url = urlQuery
		}
	}
	if end < 0 {
		return p, len(s), nil
	}
	return place{state: inTag, element: p.element}, end + 1, nil
}
