package jobapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
)

// maxWord is the longest type or cursor in a query.
const maxWord = 512

// params are the parameters of a request's query, each of them once.
type params map[string]string

// parameters returns the query of a request that may have these parameters. The
// error is a [FieldError]; it quotes no values.
func parameters(r *http.Request, names ...string) (params, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &FieldError{"query", "it is not encoded as a query is"}
	}
	p := params{}
	for name, v := range values {
		switch {
		case !slices.Contains(names, name):
			return nil, &FieldError{jobs.Clip(shown(name), 40+len("…"), "…"), "there is no such parameter" + known(names)}
		case len(v) > 1:
			return nil, &FieldError{name, "it is there more than once"}
		case v[0] == "":
			return nil, &FieldError{name, "it is empty"}
		case len(v[0]) > maxWord || !utf8.ValidString(v[0]):
			return nil, &FieldError{name, fmt.Sprintf("want at most %d bytes of UTF-8", maxWord)}
		}
		p[name] = v[0]
	}
	return p, nil
}

func known(names []string) string {
	if len(names) == 0 {
		return " here"
	}
	return "; there are " + strings.Join(names, ", ")
}

// number returns a whole number from 1 to most, or otherwise if the parameter is
// missing.
func (p params) number(name string, most, otherwise int) (int, error) {
	text, ok := p[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(n) != text || n < 1 || n > most {
		return 0, &FieldError{name, fmt.Sprintf("want a whole number from 1 to %d", most)}
	}
	return n, nil
}

// truth returns whether a parameter is true; it may be left out.
func (p params) truth(name string) (value, given bool, err error) {
	switch text, ok := p[name]; {
	case !ok:
		return false, false, nil
	case text == "true", text == "false":
		return text == "true", true, nil
	}
	return false, true, &FieldError{name, "want true or false"}
}
