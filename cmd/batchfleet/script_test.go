package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the command as people type it; see testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			fixtures, err := filepath.Abs("../../pdf/testdata")
			if err != nil {
				return err
			}
			e.Setenv("FIXTURES", fixtures)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
	})
}
