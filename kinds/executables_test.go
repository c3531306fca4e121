package kinds

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestK01MissingProgramsAreReportedWithTheirPlace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names there")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o700, "bin/data": 0o600, "beside.sh": 0o700} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "kinds.toml")
	text := `[found]
command = ["tool"]
[beside]
command = ["./beside.sh"]
[absolute]
command = ["` + bin + `/tool"]
[missing]
command = ["no-such-program", "x"]
[missing-beside]
command = [
  "./no-such.sh",
]
[not-executable]
command = ["bin/data"]
[not-executable-in-path]
command = ["data"]
[directory]
command = ["./bin"]
[beside-by-name]
command = ["beside.sh"]
[with-arguments]
command = ["tool -v"]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Read(file)
	if err != nil {
		t.Fatal(err) // reading looks for nothing
	}
	search := "relative" + string(os.PathListSeparator) + bin
	want := strings.NewReplacer("FILE", file, "DIR", dir, "SEARCH", search).Replace(`FILE:8:12: missing.command has "no-such-program", which is not in PATH (SEARCH): install it or give its full path
FILE:11:3: missing-beside.command has "DIR/no-such.sh", which is not there: install it or correct the path
FILE:14:12: not-executable.command has "DIR/bin/data", which is not executable: chmod +x it, and make its directories readable for this user
FILE:16:12: not-executable-in-path.command has "data", which is not in PATH (SEARCH): install it or give its full path
FILE:18:12: directory.command has "DIR/bin", which cannot be run (is a directory): give the path of a program
FILE:20:12: beside-by-name.command has "beside.sh", which is not in PATH (SEARCH): write "./beside.sh" for the one beside the kinds file
FILE:22:12: with-arguments.command has "tool -v", which is not in PATH (SEARCH): write the program alone, as in ["tool", …], and each argument as a text of its own`)
	for range 2 { // what was missing is not reported from before
		if err = set.Executables(search); err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	}
	for name, path := range map[string]string{"found": bin + "/tool", "beside": dir + "/beside.sh", "absolute": bin + "/tool", "missing": ""} {
		if got := set.Get(jobs.Kind(name)).Path; got != path {
			t.Errorf("%s is %q, want %q", name, got, path)
		}
	}
}

func TestK01ScriptsThatCannotStartAreReported(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names there")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"fine": "#! /bin/sh -e\n", "gone": "#!/no/such/sh -e\necho\n", "dos": "#!/bin/sh\r\necho\r\n", "binary": "\x7fELF#!/no/such\n", "bare": "#!\n",
		"python3": "#!/bin/sh\n", "count.py": "print()\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	gone := `has "DIR/gone", whose first line names "/no/such/sh", which is not there: install it or correct the line`
	dos := `has "DIR/dos", whose lines end as on Windows, so its interpreter is not found: write it with line ends of Unix, as dos2unix does`
	beside := `has "count.py", and the program starts in an empty directory: write "DIR/count.py"`
	for command, want := range map[string]string{
		`"./fine"`: "", `"./binary"`: "", `"./bare"`: "", `"./gone"`: gone, `"gone"`: gone, `"./dos"`: dos,
		`"python3", "count.py", "{input}"`: beside, `"python3", "-u", "count.py"`: beside,
		`"python3", "DIR/count.py"`: "", `"python3", "-m", "count"`: "", `"python3", "other.py"`: "", `"python3"`: "", `"./fine", "count.py"`: "",
	} {
		t.Run(command, func(t *testing.T) {
			file := filepath.Join(dir, "kinds.toml")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll("[k]\ncommand = ["+command+"]\n", "DIR", dir)), 0o600); err != nil {
				t.Fatal(err)
			}
			set, err := Read(file)
			if err != nil {
				t.Fatal(err)
			}
			if want != "" {
				want = file + ":2:12: k.command " + strings.ReplaceAll(want, "DIR", dir)
			}
			got := ""
			if err := set.Executables(dir); err != nil {
				got = err.Error()
			}
			if path := set.Get("k").Path; got != want || (path == "") != (want != "") {
				t.Errorf("got %q and program %q, want %q", got, path, want)
			}
		})
	}
}

func TestALongPATHIsCut(t *testing.T) {
	if got := shortened(strings.Repeat("a", 200)); len(got) != 200 {
		t.Errorf("200 bytes become %q", got)
	}
	if got := shortened(strings.Repeat("a", 201)); got != strings.Repeat("a", 200)+"…" {
		t.Errorf("201 bytes become %q", got)
	}
}

func TestK01ProgramsOfTheCurrentDirectoryAreNotMeant(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tool", "bin/tool"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	set := parse(t, "[k]\ncommand = [\"tool\"]\n")
	for _, search := range []string{"", ".", "bin", "./bin", string(os.PathListSeparator)} {
		if err := set.Executables(search); err == nil {
			t.Errorf("PATH %q finds %s", search, set.Get("k").Path)
		}
	}
}
