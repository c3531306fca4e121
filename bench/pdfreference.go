package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/safefile"
)

// A reference is what another reader makes of a document.
type reference struct {
	Pages int    `json:"pages"` // 0 when it does not open it
	Text  []byte `json:"text"`
}

// references reads documents with the tools that ours is measured by, and
// keeps what they said, by the hash of the file and the version of the tool.
type references struct {
	dir            string
	poppler, mupdf string // versions
	limit          time.Duration
}

func newReferences(ctx context.Context) (*references, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find cache: %w", err)
	}
	r := &references{dir: filepath.Join(cache, "batchfleet", "pdf-reference"), limit: 4 * time.Minute}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	var errs [2]error
	r.poppler, errs[0] = toolVersion(ctx, "pdftotext")
	r.mupdf, errs[1] = toolVersion(ctx, "mutool")
	return r, errors.Join(errs[:]...)
}

// of returns what pdftotext and mutool make of a document.
func (r *references) of(ctx context.Context, d document) (poppler, mupdf reference, err error) {
	data, err := os.ReadFile(d.path)
	if err != nil {
		return poppler, mupdf, fmt.Errorf("read document: %w", err)
	}
	sum := sha256.Sum256(append(data, d.password...))
	poppler, err = r.cached(ctx, fmt.Sprintf("%x %s", sum, r.poppler), d, pdftotext, popplerPages)
	if err != nil {
		return poppler, mupdf, err
	}
	mupdf, err = r.cached(ctx, fmt.Sprintf("%x %s", sum, r.mupdf), d, mutool, mupdfPages)
	return poppler, mupdf, err
}

// cached returns what is kept under key, or else reads the document with by and
// keeps that. A reading that was stopped is not kept.
func (r *references) cached(ctx context.Context, key string, d document, by reader, pages func(context.Context, document, time.Duration) int) (reference, error) {
	path := filepath.Join(r.dir, strings.ReplaceAll(key, " ", "-")+".json")
	var ref reference
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &ref) == nil {
		return ref, nil
	}
	got := by.read(ctx, d, r.limit, nil)
	ref = reference{pages(ctx, d, r.limit), got.text}
	if ctx.Err() != nil || got.hung {
		return ref, ctx.Err()
	}
	data, err := json.Marshal(ref)
	if err == nil {
		err = safefile.Replace(path, data) // two runs may keep the same
	}
	if err != nil {
		return ref, fmt.Errorf("keep reference: %w", err)
	}
	return ref, nil
}

// popplerPages returns the number of pages that pdfinfo says, 0 for none.
func popplerPages(ctx context.Context, d document, limit time.Duration) int {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said, _ := exec.CommandContext(ctx, "pdfinfo", "-upw", d.password, d.path).Output() // an error says nothing
	for line := range strings.Lines(string(said)) {
		if rest, ok := strings.CutPrefix(line, "Pages:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest)) // a number, by pdfinfo
			return n
		}
	}
	return 0
}

// mupdfPages returns the number of pages that mutool lists, 0 for none.
func mupdfPages(ctx context.Context, d document, limit time.Duration) int {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said, _ := exec.CommandContext(ctx, "mutool", "pages", "-p", d.password, d.path).Output() // an error says nothing
	return bytes.Count(said, []byte("<page "))
}
