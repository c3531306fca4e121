package wire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFileName is the limit of Linux file systems, in bytes.
const maxFileName = 255

// CheckFileName returns why a file in the directory of a job cannot have the name, or nil. On Linux, macOS and Windows a valid name is a file in
// that directory and nowhere else.
func CheckFileName(name string) error {
	switch {
	case name == "" || name == ".":
		return fmt.Errorf("file name %q names no file", name)
	case len(name) > maxFileName:
		return fmt.Errorf("file name %.80q has %d bytes, at most %d", name, len(name), maxFileName)
	case !utf8.ValidString(name):
		return fmt.Errorf("file name %.80q is not UTF-8", name)
	case strings.Contains(name, "..") || strings.ContainsAny(name, `/\`):
		return fmt.Errorf(`file name %.80q must not have .., / or \: files are given without directories`, name)
	case strings.ContainsAny(name, `<>:"|?*`):
		return fmt.Errorf(`file name %.80q must not have any of <>:"|?*, which Windows refuses`, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("file name %.80q has a control character", name)
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return fmt.Errorf("file name %.80q must not end with a dot or a blank, which Windows leaves out", name)
	case IsDevice(name):
		return fmt.Errorf("file name %.80q is a device on Windows", name)
	}
	return nil
}

// IsDevice reports whether Windows opens a device, such as NUL or COM1, in place of a file with this name. An extension makes no difference.
func IsDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	port, found := strings.CutPrefix(base, "COM")
	if !found {
		port, found = strings.CutPrefix(base, "LPT")
	}
	return found && utf8.RuneCountInString(port) == 1 && strings.ContainsAny(port, "0123456789¹²³")
}

// fileNames are the names in the directory of a job, as [FoldCase] returns them.
type fileNames map[string]bool

// add checks a name, and that the directory does not have it yet, also in other case.
func (n fileNames) add(name string) error {
	if err := CheckFileName(name); err != nil {
		return err
	}
	if strings.EqualFold(name, "result.zip") || strings.EqualFold(name, ".grid") {
		return errReserved(name)
	}
	key := FoldCase(name)
	if n[key] {
		return fmt.Errorf("file name %.80q is given twice; names that differ by case are the same on some systems", name)
	}
	n[key] = true
	return nil
}

// checkExec returns an error if a file has the name of the program, which the worker puts into the same directory.
func (n fileNames) checkExec(exec string) error {
	if program := exec + ".exe"; len(n) > 0 && n[FoldCase(program)] {
		return errReserved(program)
	}
	return nil
}

func errReserved(name string) error {
	return fmt.Errorf("file name %.80q is reserved in the directory of a job", name)
}

// FoldCase returns the same string for all names that [strings.EqualFold] finds equal: file systems without regard to case take them for one.
func FoldCase(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, s)
}
