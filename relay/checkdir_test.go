package relay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestR70CheckedDirectoryIsAsItWas(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "open"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "open"), 0o777); err != nil { //nolint:gosec // that is what is wrong with it
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path string
		minFree    int64
		want       string // of the error
	}{
		{"it is there", ".", 0, ""},
		{"it is not", "a/b", 0, ""},
		{"little room", "a/b", 1 << 62, "bytes are free, and 4611686018427387904 are wanted"},
		{"below a file", "file/a", 0, "not a directory"},
		{"a file", "file", 0, "not a directory"},
		{"others may write", "open", 0, "others could change what is in it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := CheckDir(filepath.Join(dir, tt.path), tt.minFree)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && !strings.Contains(found, "bytes are free") {
				t.Errorf("%q, %v; want %q", found, err, tt.want)
			}
		})
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 2 {
		t.Errorf("it has left %v, %v", names, err)
	}
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*")) // a pattern that is right
	below, _ := filepath.Glob(filepath.Join(dir, "open", "*"))
	if len(hidden)+len(below) > 0 {
		t.Errorf("it has left %v %v", hidden, below)
	}
}

func TestR28CheckOfADirectoryInUse(t *testing.T) {
	r := newRig(t)
	if found, err := CheckDir(r.Dir, 0); err != nil || !strings.HasPrefix(found, "a relay runs there, and ") {
		t.Errorf("%q, %v", found, err)
	}
}
