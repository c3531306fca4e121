package pdfquick

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/command"
)

// What is more is no small document.
const (
	maxInput  = 1 << 20 // bytes
	maxOutput = 1 << 20 // bytes, of all replies
	maxTime   = 10 * time.Second
)

func init() {
	if len(os.Args) != 3 || os.Args[1] != "pdf" || !byDefault(os.Args[2]) {
		return
	}
	// One thread after the other costs less than several that wait for each other.
	before := runtime.GOMAXPROCS(1)
	text, ok := read(os.Args[2])
	if !ok {
		runtime.GOMAXPROCS(before)
		return
	}
	// As in the command pdf: that the reader has had enough is no failure.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	if n, err := os.Stdout.WriteString(text); err == nil || n > 0 || errors.Is(err, syscall.EPIPE) {
		if err != nil && !errors.Is(err, syscall.EPIPE) {
			_, _ = os.Stderr.WriteString("batchfleet: write to stdout: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	signal.Stop(pipe) // nothing was written: the command pdf says why
	runtime.GOMAXPROCS(before)
}

// byDefault reports whether nothing is asked for but the text of a small file:
// no flags, no settings, no terminal, which must not obey the text.
func byDefault(name string) bool {
	if strings.HasPrefix(name, "-") {
		return false
	}
	for _, setting := range os.Environ() {
		for _, ours := range []string{"PDF_", "MAX_", "WORK_DIR=", "BATCHFLEET_PDF_"} {
			if strings.HasPrefix(setting, ours) {
				return false
			}
		}
	}
	if _, err := os.Lstat(".env"); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if _, err := unix.IoctlGetTermios(unix.Stdout, unix.TCGETS); err == nil {
		return false
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Size() <= maxInput
}

// request and reply are what a child is asked and says, as far as it matters here;
// see package processor.
type request struct {
	Path []byte `json:"path"`
	From int    `json:"from"`
}

type reply struct {
	Opened *struct {
		Pages    int      `json:"pages"`
		Warnings []string `json:"warnings"`
	} `json:"opened"`
	Page *struct {
		Page    int    `json:"page"`
		Text    string `json:"text"`
		Warning string `json:"warning"`
	} `json:"page"`
	Done bool     `json:"done"`
	Late []string `json:"late"`
}

// errOdd ends what the command pdf has to say something about.
var errOdd = errors.New("not for this package")

// read returns what the command pdf would print, and whether all went well.
func read(name string) (text string, ok bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	if !strings.HasPrefix(name, "/") {
		name = dir + "/" + name
	}
	ask, err := json.Marshal(request{[]byte(name), 1})
	if err != nil {
		return "", false
	}
	child, err := (&command.Command{
		Path: "/proc/self/exe", Args: []string{"pdf-child"}, Env: []string{"GOMEMLIMIT=768MiB", "GOTRACEBACK=none", "GOMAXPROCS=1"}, Alone: true,
		Limits: command.Limits{Memory: 1 << 30, CPU: maxTime, FileBytes: 1, OpenFiles: 64, LineBytes: maxOutput, OutputBytes: maxOutput},
	}).Open(context.Background())
	if err != nil {
		return "", false
	}
	defer child.Close()
	var out strings.Builder
	pages, next, done := -1, 1, false
	err = child.Do(context.Background(), append(ask, '\n'), maxTime, func(line []byte) (bool, error) {
		var r reply
		if err := json.Unmarshal(line, &r); err != nil || done {
			return false, errOdd
		}
		switch {
		case r.Opened != nil && pages < 0 && r.Opened.Pages >= 0 && len(r.Opened.Warnings) == 0:
			pages = r.Opened.Pages
		case r.Page != nil && r.Page.Page == next && next <= pages && r.Page.Warning == "":
			next++
			out.WriteString(r.Page.Text)
			if r.Page.Text != "" && !strings.HasSuffix(r.Page.Text, "\n") {
				out.WriteByte('\n')
			}
			out.WriteByte('\f')
		case r.Done && next > pages && pages >= 0 && len(r.Late) == 0:
			done = true
		default:
			return false, errOdd
		}
		return done, nil
	})
	return out.String(), err == nil && done
}
