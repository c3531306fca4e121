package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A document is one file of the corpus.
type document struct {
	path     string
	origin   string // the Debian package, or the program that made it
	group    string // latin, cjk, damaged, encrypted or generated
	password string // of the user; nearly always empty
}

// corpusDocuments returns the documents of the manifest that gather.sh has
// written.
func corpusDocuments() ([]document, error) {
	dir := os.Getenv("BENCH_CORPUS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find corpus: %w", err)
		}
		dir = filepath.Join(cache, "batchfleet", "corpus")
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.tsv"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no corpus in %s: run bench/corpus/gather.sh, or name another directory in BENCH_CORPUS", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var documents []document
	for line := range strings.Lines(string(manifest)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("read manifest: a line of %d fields: %q", len(fields), line)
		}
		documents = append(documents, document{filepath.Join(dir, fields[0]), fields[1], fields[2], fields[3]})
	}
	return documents, nil
}

// globDocuments returns the files that any of globs matches.
func globDocuments(globs []string) ([]document, error) {
	var documents []document
	for _, glob := range globs {
		paths, err := filepath.Glob(glob)
		if err != nil {
			return nil, fmt.Errorf("glob %q: %w", glob, err)
		}
		for _, path := range paths {
			if path, err = filepath.Abs(path); err != nil {
				return nil, fmt.Errorf("find document: %w", err)
			}
			documents = append(documents, document{path: path, origin: "BENCH_FILES", group: "latin"})
		}
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("no files match %q", globs)
	}
	return documents, nil
}
