package kinds

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Executables looks for the program of each kind and sets its Path. A program without / in its
// name is looked for in the absolute directories of searchPath, a value of PATH. One that is a
// relative path is looked for beside the kinds file. The error is a [*FileError] with those that
// are missing or could not start; the other kinds have their Path. It is not for concurrent use.
func (s *Set) Executables(searchPath string) error {
	if s.source == nil {
		return nil // there is no kind
	}
	for _, k := range s.Kinds {
		if k.IsOwn() {
			continue
		}
		path, err := s.find(k.Command[0], searchPath)
		if err == nil {
			err = checkScript(path)
		}
		if err == nil {
			err = s.checkArguments(k.Command)
		}
		if err != nil {
			path = ""
			s.source.wrong(k.at, string(k.Name)+".command", "%v", err)
		}
		k.Path = path
	}
	err := s.source.err()
	s.source.found, s.source.more = nil, 0
	return err
}

func (s *Set) find(program, searchPath string) (string, error) {
	if strings.ContainsRune(program, '/') || strings.ContainsRune(program, filepath.Separator) {
		path := program
		if !filepath.IsAbs(path) {
			beside, err := filepath.Abs(filepath.Dir(s.File))
			if err != nil {
				return "", err
			}
			path = filepath.Join(beside, path)
		}
		found, err := exec.LookPath(path)
		return found, because(path, err)
	}
	for _, dir := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(dir) {
			continue // whatever stands in the current directory is not meant
		}
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("has %q, which is not in PATH (%s): %s", program, shortened(searchPath), s.advice(program))
}

// shortened is a value of PATH for people: its end shows that it is cut.
func shortened(searchPath string) string {
	const most = 200
	if len(searchPath) > most {
		return searchPath[:most] + "…"
	}
	return searchPath
}

// advice says what to do about a program that is not in PATH.
func (s *Set) advice(program string) string {
	if first, _, several := strings.Cut(program, " "); several {
		return fmt.Sprintf("write the program alone, as in [%q, …], and each argument as a text of its own", first)
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(s.File), program)); err == nil && info.Mode().IsRegular() {
		return fmt.Sprintf("write %q for the one beside the kinds file", "./"+program)
	}
	return "install it or give its full path"
}

func because(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("has %q, which is not there: install it or correct the path", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("has %q, which is not executable: chmod +x it, and make its directories readable for this user", path)
	}
	return fmt.Errorf("has %q, which cannot be run (%w): give the path of a program", path, errors.Unwrap(err))
}
