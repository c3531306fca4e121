package processor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Poppler is the other engine of kind "pdf", for comparison and for those who trust
// it more: poppler's programs read the document. They are children of the child that
// [PDF] starts, in its process group and under its limits. The child passes what
// they write on to the parent, so the documentation of PDF applies to Poppler, too.
//
// It knows less than PDF. There is no outline. A document whose page
// count and text disagree fails. pdftotext writes in blocks of some kilobytes,
// so the page an error names is the first that did not come through whole,
// which may be one before the page at fault. A password is an argument of the
// programs, which other users of the machine can see.
type Poppler struct {
	PDF
	Programs Programs
}

// Name implements [Engine].
func (p Poppler) Name() string { return "poppler" }

// Read implements [Engine]; its errors are those of [PDF.Read].
func (p Poppler) Read(ctx context.Context, _ jobs.Job, path string, from int, out Sink) error {
	// What a program leaves behind ends only with the child.
	p.Children = nil
	needs := []string{path, p.Programs.Text, p.Programs.Info, p.Programs.Images}
	return p.readInChild(ctx, pdfRequest{Path: []byte(path), From: from, Poppler: &p.Programs}, out, needs...)
}

// Programs are the paths of poppler's programs.
type Programs struct {
	Text    string `json:"text"`   // pdftotext
	Info    string `json:"info"`   // pdfinfo
	Images  string `json:"images"` // pdfimages
	Version string `json:"-"`      // 22.12.0
}

// ErrNoPoppler is the error of a machine without poppler's programs.
var ErrNoPoppler = errors.New("not installed: apt-get install poppler-utils")

// FindPoppler looks for poppler's programs on PATH. The error wraps
// [ErrNoPoppler] if one is missing; otherwise they are not poppler's, or do not
// run.
func FindPoppler(ctx context.Context) (Programs, error) {
	var p Programs
	for _, program := range []struct {
		name string
		path *string
	}{{"pdftotext", &p.Text}, {"pdfinfo", &p.Info}, {"pdfimages", &p.Images}} {
		found, err := exec.LookPath(program.name)
		if err == nil {
			found, err = filepath.Abs(found)
		}
		if err != nil {
			return Programs{}, fmt.Errorf("find %s: %w", program.name, ErrNoPoppler)
		}
		*program.path = found
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, p.Text, "-v").CombinedOutput()
	first, _, _ := strings.Cut(string(output), "\n")
	version, ok := strings.CutPrefix(first, "pdftotext version ")
	switch {
	case ctx.Err() != nil:
		return Programs{}, fmt.Errorf("run %s -v: %w", p.Text, context.Cause(ctx))
	case ok && strings.Contains(string(output), "Poppler"):
		p.Version = strings.TrimSpace(version)
		return p, nil
	case err != nil:
		return Programs{}, fmt.Errorf("run %s -v: %w", p.Text, err)
	default:
		// Xpdf's programs have the same names and other options.
		return Programs{}, fmt.Errorf("%s is not poppler's: it says %.80q", p.Text, first)
	}
}
