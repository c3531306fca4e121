package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// asReader makes the test binary run the terminals that are in its directory.
const asReader = "BATCHFLEET_TEST_READER"

// nextTerminal is the first line of a block that a reader types into a new terminal,
// while what the one before it has started goes on.
const nextTerminal = "# in another terminal"

var (
	notRun  = regexp.MustCompile(`^<!-- not run: \S.* -->$`)
	serving = regexp.MustCompile(`listens on|is up|started"|Ready to accept connections`)
)

// runnable is what of the checkout commands in documents name.
var runnable = []string{"README.md", "examples", "pdf", "processor"}

// prelude stands for what the reader has done before: built the programs.
const prelude = `
set -euo pipefail
unset BASH_ENV
trap 'echo "line $LINENO of the page: exit code $?: $BASH_COMMAND"' ERR
go() { test "$1 $2" = "run ./cmd/batchfleet" && shift 2 && bin/batchfleet "$@"; }
make() { test "$*" = build; }
`

func init() {
	if home := os.Getenv(asReader); home != "" {
		os.Exit(reader(home))
	}
}

// TestSnippetsRun runs every sh block of README.md and docs as a reader does, page by page:
// in order, with bash, in a directory with the program and the documents of the checkout, and on
// the ports that the page names, because each page has a network and processes of its own.
func TestSnippetsRun(t *testing.T) {
	t.Parallel()
	for file, text := range pages(t) {
		terminals, mistakes := snippets(text)
		for _, mistake := range mistakes {
			t.Errorf("%s:%s", file, mistake)
		}
		if len(terminals) == 0 {
			continue
		}
		t.Run(file, func(t *testing.T) {
			testrun.Long(t, "it starts servers")
			testrun.Once(t, "what the commands start has race tests of its own")
			t.Parallel()
			read(t, file, terminals)
		})
	}
}

// TestSnippetsAreFound: a block of commands cannot escape by the way it is written.
func TestSnippetsAreFound(t *testing.T) {
	tests := []struct {
		name, text     string
		terminals, bad int
	}{
		{"a block is run", "```sh\ntrue\n```", 1, 0},
		{"blocks share a terminal", "```sh\ntrue\n```\ntext\n```sh\ntrue\n```", 1, 0},
		{"another terminal is another shell", "```sh\ntrue\n```\n```sh\n" + nextTerminal + "\ntrue\n```", 2, 0},
		{"an excused block is not run", "<!-- not run: needs docker -->\n```sh\ntrue\n```", 0, 0},
		{"a blank line may follow the excuse", "<!-- not run: needs docker -->\n\n```sh\ntrue\n```", 0, 0},
		{"an excuse needs a reason", "<!-- not run: -->\n```sh\ntrue\n```", 1, 0},
		{"an excuse is for one block", "<!-- not run: needs docker -->\n```sh\ntrue\n```\n```sh\ntrue\n```", 1, 0},
		{"output is text", "```text\nhello\n```", 0, 0},
		{"a block says what it is", "```\ntrue\n```", 0, 1},
		{"bash is written sh", "```bash\ntrue\n```", 0, 1},
		{"indented code becomes a block", "text\n\n    batchfleet list\n", 0, 1},
		{"a block ends", "```sh\ntrue\n", 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			terminals, mistakes := snippets(tt.text)
			if len(terminals) != tt.terminals || len(mistakes) != tt.bad {
				t.Errorf("got %d terminals and mistakes %q, want %d and %d", len(terminals), mistakes, tt.terminals, tt.bad)
			}
		})
	}
}

// pages returns the documents by name, but not those that are made from the code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files := []string{"README.md"}
	err := filepath.WalkDir("../docs", func(path string, _ os.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, "../"); strings.HasSuffix(name, ".md") && name != "docs/cli.md" && name != "docs/configuration.md" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	}
	return all
}

// snippets returns what is typed into each terminal, and what is wrong with the page. Each line
// is where it is on the page, so that bash names the page's lines.
func snippets(page string) (terminals []string, mistakes []string) {
	lines := strings.Split(page, "\n")
	language, fenced, excused, last := "", false, false, ""
	for i, line := range lines {
		mistake := func(text string) { mistakes = append(mistakes, fmt.Sprintf("%d: %s", i+1, text)) }
		run := fenced && language == "sh" && !excused
		switch opening, isFence := strings.CutPrefix(line, "```"); {
		case isFence && fenced:
			fenced = false
		case isFence:
			language, fenced, excused = opening, true, notRun.MatchString(last)
			if !slices.Contains([]string{"sh", "text", "json", "nginx", "go"}, language) {
				mistake(fmt.Sprintf("a block of %q: commands are sh, output and pictures are text", language))
			}
			if language == "sh" && !excused && (len(terminals) == 0 || i+1 < len(lines) && lines[i+1] == nextTerminal) {
				terminals = append(terminals, strings.Repeat("\n", i))
			}
			run = language == "sh" && !excused
			line = fmt.Sprintf("echo '== line %d'", i+1)
		case !fenced && strings.HasPrefix(line, "    ") && i > 0 && lines[i-1] == "":
			mistake("indented code: use a block")
		}
		if !run || strings.HasPrefix(line, "```") {
			line = ""
		}
		if len(terminals) > 0 {
			terminals[len(terminals)-1] += line + "\n"
		}
		if strings.TrimSpace(lines[i]) != "" {
			last = lines[i]
		}
	}
	if fenced {
		mistakes = append(mistakes, "a block does not end")
	}
	return terminals, mistakes
}

// read runs a page: this binary again, as the first process of a namespace with which all others end.
func read(t *testing.T, page string, terminals []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	checkout, home := filepath.Join(dir, "batchfleet"), filepath.Join(dir, "home")
	for _, d := range []string{filepath.Join(checkout, "bin"), home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"bin/batchfleet": self}
	for _, name := range runnable {
		if links[name], err = filepath.Abs(filepath.Join("..", name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(checkout, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "prelude"), []byte(prelude), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, text := range terminals {
		if err := os.WriteFile(filepath.Join(home, fmt.Sprintf("terminal-%d", i+1)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := []string{"--net", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	c := exec.CommandContext(ctx, "unshare", append(args, self)...)
	c.Dir = checkout
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "BASH_ENV=" + filepath.Join(home, "prelude"),
		asReader + "=" + home,
	}
	started := time.Now()
	out, err := c.CombinedOutput()
	if strings.HasPrefix(string(out), "unshare: ") && os.Getenv("CI") == "" {
		t.Skipf("no namespaces here: %s", out)
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", page, err, out)
	}
	t.Logf("%s: %d terminals, %.1f s", page, len(terminals), time.Since(started).Seconds())
}

// reader is the first process of the namespace. It returns the exit code.
func reader(home string) int {
	if err := loopbackUp(); err != nil {
		fmt.Println("set up loopback:", err)
		return 1
	}
	files, err := filepath.Glob(filepath.Join(home, "terminal-*"))
	if err != nil || len(files) == 0 {
		fmt.Println("no terminals:", err)
		return 1
	}
	var all []*terminal
	for i := range files {
		last := open(filepath.Join(home, fmt.Sprintf("terminal-%d", i+1)))
		all = append(all, last)
		last.wait(i < len(files)-1)
		if slices.ContainsFunc(all, (*terminal).failed) {
			for n, t := range all {
				fmt.Printf("---- terminal %d\n%s\n", n+1, t.output())
			}
			return 1
		}
	}
	return 0
}

// terminal is a shell that runs what is typed into it.
type terminal struct {
	screen string // file with what it has printed
	ended  chan struct{}
	err    error
}

// open starts a terminal.
func open(script string) *terminal {
	t := &terminal{screen: script + ".out", ended: make(chan struct{})}
	screen, err := os.Create(t.screen)
	if err != nil {
		panic(err)
	}
	c := exec.CommandContext(context.Background(), "bash", script)
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, asReader+"=") })
	c.Env = append(c.Env, asBatchfleet+"=1")
	c.Stdout, c.Stderr = screen, screen
	if err := c.Start(); err != nil {
		panic(err)
	}
	go func() {
		t.err = c.Wait()
		close(t.ended)
	}()
	return t
}

// wait returns when all has been run; where others come, also when its last block has become a server.
func (t *terminal) wait(others bool) {
	for {
		select {
		case <-t.ended:
			return
		case <-time.After(20 * time.Millisecond):
		}
		out := t.output()
		if others && serving.MatchString(out[strings.LastIndex(out, "== line ")+1:]) {
			return
		}
	}
}

// failed reports whether a command has failed that nothing excuses.
func (t *terminal) failed() bool {
	select {
	case <-t.ended:
		return t.err != nil
	default:
		return false
	}
}

// output returns what the terminal shows.
func (t *terminal) output() string {
	out, err := os.ReadFile(t.screen)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// loopbackUp turns on the only interface of a new network.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
