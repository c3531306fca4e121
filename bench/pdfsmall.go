package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// smallFiles is how many documents of a page are read.
const smallFiles = 200

// pdfSmall compares `batchfleet pdf` with pdftotext on documents of one page, a
// process each, and then reads all of them with one.
func pdfSmall(ctx context.Context, b *pdfBench) error {
	binary, err := build(ctx, b.dir)
	if err != nil {
		return err
	}
	var files []string
	for n := range smallFiles {
		text := fmt.Sprintf("Document %d\nhas a page\nof three lines.", n)
		d, err := b.write("small"+strconv.Itoa(n)+".pdf", pdftest.Pages(text).Table(""))
		if err != nil {
			return err
		}
		files = append(files, d.path)
	}
	var own, poppler, ratio []float64
	for _, file := range files {
		ours, err := cost(exec.CommandContext(ctx, binary, "pdf", file))
		if err != nil {
			return err
		}
		theirs, err := cost(exec.CommandContext(ctx, "pdftotext", file, "-"))
		if err != nil {
			return err
		}
		own, poppler, ratio = append(own, ours), append(poppler, theirs), append(ratio, ours/theirs)
	}
	b.add("one small document, batchfleet pdf, median", median(own), "ms of CPU", bar{})
	b.add("one small document, pdftotext, median", median(poppler), "ms of CPU", bar{})
	b.add("one small document, by pdftotext, median", median(ratio), "times", atMost(2))
	var each []float64
	for range speedRounds {
		all, err := cost(exec.CommandContext(ctx, binary, append([]string{"pdf"}, files...)...))
		if err != nil {
			return err
		}
		each = append(each, all/smallFiles)
	}
	b.add(fmt.Sprintf("%d small documents in a call, each", smallFiles), median(each), "ms of CPU", atMost(3))
	return b.smallMemory(exec.CommandContext(ctx, binary, append([]string{"pdf"}, files...)...))
}

// smallMemory reports the most memory of a command and of its child, by looking
// while it runs: the maximum in rusage begins with that of this program.
func (b *pdfBench) smallMemory(cmd *exec.Cmd) error {
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	most := map[bool]float64{}
	for {
		select {
		case err := <-ended:
			b.add(fmt.Sprintf("%d small documents in a call, memory of the command", smallFiles), most[false]/(1<<20), "MiB", bar{})
			b.add(fmt.Sprintf("%d small documents in a call, memory of the child", smallFiles), most[true]/(1<<20), "MiB", bar{})
			return err
		default:
		}
		pids := []string{strconv.Itoa(cmd.Process.Pid)}
		children, _ := filepath.Glob("/proc/" + pids[0] + "/task/*/children")
		for _, list := range children {
			text, _ := os.ReadFile(list) // of a thread that may have ended
			pids = append(pids, strings.Fields(string(text))...)
		}
		for i, pid := range pids {
			peak, _ := memoryOf(pid, "VmHWM") // the process may have ended
			most[i > 0] = max(most[i > 0], peak)
		}
	}
}

// cost runs a command whose text goes nowhere, and returns its processor time in
// milliseconds and that of the children it waited for.
func cost(cmd *exec.Cmd) (ms float64, err error) {
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return cpu.Seconds() * 1000, nil
}
