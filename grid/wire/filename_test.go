package wire

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestG62FileNames(t *testing.T) {
	for _, name := range []string{
		"input.txt", "a", "-rf", ".hidden", "a b", " a", "日本語.csv", "com10", "COM", "console.txt", "lpt", "nulx", "aux-1.txt", "a.con", "(1).txt", "100%", "$HOME", "~",
		strings.Repeat("x", 255),
	} {
		if err := CheckFileName(name); err != nil {
			t.Errorf("CheckFileName(%q) = %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", "...", "a..b", "../x", "a/b", "/etc/passwd", `a\b`, `C:\x`, "C:x", "a:b", "a\x00b", "a\nb", "a\x7fb", "a\u0085b", "a.", "a ", "a. ", "\xff",
		"CON", "con", "Con.txt", "con.tar.gz", "NUL", "nul .txt", "AUX.h", "prn", "COM1", "com9.log", "COM0", "LPT1.txt", "COM¹", "lpt³.x", "CONIN$", "conout$", "CLOCK$",
		"a<b", "a>b", `a"b`, "a|b", "a?b", "a*b",
		strings.Repeat("x", 256), strings.Repeat("é", 128),
	} {
		if CheckFileName(name) == nil {
			t.Errorf("CheckFileName(%q) has no error", name)
		}
	}
}

// FuzzF6FileName checks that a name that passes stays in its directory, by the rules of Linux and of Windows.
func FuzzF6FileName(f *testing.F) {
	for _, name := range []string{"input.txt", "../x", `..\x`, "C:x", "a/../b", "NUL.txt", "com1 .x", "a\x00", "x. ", "COM²", `\\?\C:\x`, "a:$DATA", "¹"} {
		f.Add(name)
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, name string) {
		if CheckFileName(name) != nil {
			return
		}
		if !filepath.IsLocal(name) || filepath.Base(name) != name || filepath.Dir(filepath.Join(root, name)) != root {
			t.Errorf("%q leaves its directory on Linux", name)
		}
		if why := windowsRefuses(name); why != "" {
			t.Errorf("%q is no file of its directory on Windows: %s", name, why)
		}
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Errorf("%q cannot be made: %v", name, err)
		}
		if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 || entries[0].Name() != name {
			t.Errorf("%q has made %v, %v", name, entries, err)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	})
}

// windowsRefuses tells why Windows would not make a file of a name, by the rules of its documentation ("Naming Files, Paths, and
// Namespaces"), or is empty.
func windowsRefuses(name string) string {
	for _, r := range name {
		if r < ' ' || strings.ContainsRune(`<>:"/\|?*`, r) {
			return "a character is reserved"
		}
	}
	if strings.TrimRight(name, ". ") != name {
		return "it ends with a dot or a blank"
	}
	first, _, _ := strings.Cut(name, ".")
	first = strings.ToLower(strings.TrimRight(first, " "))
	devices := []string{"con", "prn", "aux", "nul", "conin$", "conout$"}
	for _, port := range []string{"com", "lpt"} {
		for n := range strings.SplitSeq("0 1 2 3 4 5 6 7 8 9 ¹ ² ³", " ") {
			devices = append(devices, port+n)
		}
	}
	if slices.Contains(devices, first) {
		return "it is a device"
	}
	return ""
}

func FuzzF6ExecName(f *testing.F) {
	for _, name := range []string{"calcA", "gpu.train", "../x", "a..b", "a/b", "a.", ".a", "a\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckExecName(name) != nil {
			return
		}
		if program := name + ".exe"; !filepath.IsLocal(program) || filepath.Base(program) != program || strings.ContainsAny(name, `/\:`) || strings.Contains(name, "..") {
			t.Errorf("the program of %q leaves its directory", name)
		}
	})
}
