package custom

import (
	"path/filepath"
	"strings"
)

// pathError is a failure whose text names the directories of its attempt as the kind's command does.
type pathError struct {
	error
	text string
}

func (e *pathError) Error() string { return e.text }

func (e *pathError) Unwrap() error { return e.error }

// withoutPaths returns err with a text that has no path of this attempt in it: it is read where
// these directories are not, and when they are gone.
func (a *Attempt) withoutPaths(err error) error {
	before := err.Error()
	if text := a.placeholders(before); text != before {
		return &pathError{err, text}
	}
	return err
}

// placeholders puts {input}, {output}, {work}, {checkpoint} and {params} in the place of what they stand for in
// this attempt, whose work has ended.
func (a *Attempt) placeholders(text string) string {
	// Where two match, the replacer takes the first pair.
	var pairs []string
	if len(a.Inputs) == 1 {
		pairs = append(pairs, a.Inputs[0], "{input}")
	}
	if c := a.places.checkpoint; c != nil {
		pairs = append(pairs, c.path, "{checkpoint}")
	}
	if d := a.places.dir; d != nil {
		pairs = append(pairs, d.Input, "{input}", d.Output, "{output}", d.Work, "{work}", d.Params, "{params}", filepath.Dir(d.Work)+string(filepath.Separator), "")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
