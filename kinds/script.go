package kinds

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/safefile"
)

// checkScript returns why the system could not start a script, which it calls "not there" although the file is:
// the interpreter that its first line names is missing. A file that cannot be read is taken for a program.
func checkScript(path string) error {
	const most = 256 // Linux reads no more of the line
	f, err := safefile.OpenLinked(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, most))
	line, _, _ := strings.Cut(string(head), "\n")
	rest, isScript := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	switch {
	case err != nil || !isScript || len(words) == 0:
		return nil
	case strings.HasSuffix(line, "\r"):
		return fmt.Errorf("has %q, whose lines end as on Windows, so its interpreter is not found: write it with line ends of Unix, as dos2unix does", path)
	}
	if _, err := os.Stat(words[0]); err != nil && filepath.IsAbs(words[0]) {
		return fmt.Errorf("has %q, whose first line names %q, which is not there: install it or correct the line", path, words[0])
	}
	return nil
}

// checkArguments returns an error if the program is an interpreter and its script a file beside the kinds file
// that is not named by its full path: the program starts in an empty directory. It looks for the usual way to
// write it, not every one.
func (s *Set) checkArguments(command []string) error {
	name := strings.TrimRight(filepath.Base(command[0]), "0123456789.") // python3.12
	if !slices.Contains(shells, name) && interpreters[name] == "" {
		return nil
	}
	script := slices.IndexFunc(command[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") }) + 1
	if script == 0 || filepath.IsAbs(command[script]) {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(filepath.Dir(s.File), command[script]))
	if err != nil {
		return err
	}
	if info, _ := os.Stat(path); info == nil || !info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("has %q, and the program starts in an empty directory: write %q", command[script], path)
}
