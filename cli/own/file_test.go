package own_test

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// fileRig is a kinds file of this process.
type fileRig struct {
	t     *testing.T
	path  string
	file  *own.File
	log   testlog.Buffer
	reads *prometheus.Registry
	used  chan *kinds.Set // what its user was told
}

// openFile opens a kinds file and reads it at each SIGHUP to this process, until the test ends.
func openFile(t *testing.T, text string) *fileRig {
	t.Helper()
	r := &fileRig{t: t, path: write(t, text), reads: prometheus.NewRegistry(), used: make(chan *kinds.Set, 10)}
	var err error
	if r.file, err = own.OpenFile(&own.Env{File: r.path}, true, slog.New(slog.NewTextHandler(&r.log, nil))); err != nil {
		t.Fatal(err)
	}
	r.file.Use(func(set *kinds.Set) { r.used <- set })
	<-r.used
	var running sync.WaitGroup
	running.Go(func() { r.file.Run(t.Context(), r.reads) })
	t.Cleanup(running.Wait)
	return r
}

// hangUp replaces the file and sends SIGHUP.
func (r *fileRig) hangUp(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		r.t.Fatal(err)
	}
}

// untilRead waits until the file was read so often again.
func (r *fileRig) untilRead(result string, n int) {
	r.t.Helper()
	want := fmt.Sprintf("# HELP batchfleet_kinds_file_reads_total Times that the kinds file was read again, by whether it was taken or had mistakes.\n"+
		"# TYPE batchfleet_kinds_file_reads_total counter\nbatchfleet_kinds_file_reads_total{result=%q} %d\n", result, n)
	other := map[string]string{"taken": "refused", "refused": "taken"}[result]
	for testutil.GatherAndCompare(r.reads, strings.NewReader(want+fmt.Sprintf("batchfleet_kinds_file_reads_total{result=%q} 0\n", other))) != nil {
		select {
		case <-r.t.Context().Done():
			r.t.Fatal("it was not read")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func names(set *kinds.Set) (all []jobs.Kind) {
	for _, k := range set.Kinds {
		all = append(all, k.Name)
	}
	return all
}

func TestK01FileIsReadAgainAtSIGHUP(t *testing.T) {
	r := openFile(t, "[a]\ncommand = [\"true\"]\n[b]\ncommand = [\"true\"]\n")
	r.hangUp("[b]\ncommand = [\"true\", \"b\"]\n[c]\ncommand = [\"true\"]\n")
	set := <-r.used
	if got := names(set); !slices.Equal(got, []jobs.Kind{"b", "c"}) || r.file.Set() != set || set.Get("b").Path == "" {
		t.Errorf("there are kinds %v, b is %+v", got, set.Get("b"))
	}
	r.untilRead("taken", 1)
	for _, want := range []string{"the kinds file was read again", "added=[c]", "removed=[a]", "changed=[b]"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, r.log.String())
		}
	}
}

func TestK01BrokenFileChangesNothingAndIsToldOnceWithAllMistakes(t *testing.T) {
	r := openFile(t, "[a]\ncommand = [\"true\"]\n")
	before := r.file.Set()
	r.hangUp("[a]\ncommand = [\"true\"]\ntimeuot = \"1m\"\n[b]\nslots = 0\ncommand = [\"./missing\"]\n")
	r.untilRead("refused", 1)
	if r.file.Set() != before || len(r.used) > 0 {
		t.Errorf("the kinds are %v now, and %d users were told", names(r.file.Set()), len(r.used))
	}
	text := r.log.String()
	for _, want := range []string{r.path + ":3:1: a.timeuot", r.path + ":5:9: b.slots"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the log has not once %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "level=ERROR"); n != 1 {
		t.Errorf("it is told in %d lines, want 1:\n%s", n, text)
	}
	// A program that is missing is a mistake, too, and so is a file that is gone.
	r.hangUp("[a]\ncommand = [\"./missing\"]\n")
	r.untilRead("refused", 2)
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	r.untilRead("refused", 3)
	if text := r.log.String(); r.file.Set() != before || !strings.Contains(text, "missing") || !strings.Contains(text, "no such file") {
		t.Errorf("the kinds are %v now:\n%s", names(r.file.Set()), text)
	}
	// And what is right again is taken.
	r.hangUp("[c]\ncommand = [\"true\"]\n")
	if got := names(<-r.used); !slices.Equal(got, []jobs.Kind{"c"}) {
		t.Errorf("then the kinds are %v", got)
	}
}

func TestK01WhatNeedsOtherPoolsWaitsForARestart(t *testing.T) {
	start := []own.Kind{kind("plain", 0, 0), kind("slots", 2, 0), kind("gpus", 1, 1), kind("gone", 2, 0)}
	again := func(k own.Kind, retries int) own.Kind { k.Retries = retries; return k }
	var text testlog.Buffer
	next := []own.Kind{
		again(kind("plain", 0, 0), 5), again(kind("slots", 2, 0), 5), again(kind("gpus", 1, 2), 5), again(kind("new", 0, 0), 5),
		again(kind("new-slots", 1, 0), 5), again(kind("new-gpus", 0, 1), 5),
	}
	now := own.Fitting(start, start, next, slog.New(slog.NewTextHandler(&text, nil)))
	show := func(all []own.Kind) string {
		var list []string
		for _, k := range all {
			list = append(list, fmt.Sprintf("%s %d %d %d", k.Name, k.Slots, k.GPUs, k.Retries))
		}
		return strings.Join(list, "; ")
	}
	if got, want := show(now), "plain 0 0 5; slots 2 0 5; gpus 1 1 0; new 0 0 5"; got != want {
		t.Errorf("it runs %s\nwant    %s", got, want)
	}
	for _, want := range []string{"it stays as it was until this worker is started again\" kind=gpus", "kind=new-slots", "kind=new-gpus"} {
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("the log has not once %q:\n%s", want, text.String())
		}
	}
	// A kind that was gone comes back with the slots that it had, and with no others.
	discard := slog.New(slog.DiscardHandler)
	if got := show(own.Fitting(start, now, []own.Kind{kind("gone", 2, 0)}, discard)); got != "gone 2 0 0" {
		t.Errorf("a kind that is back: %q", got)
	}
	if got := show(own.Fitting(start, now, []own.Kind{kind("gone", 0, 0)}, discard)); got != "" {
		t.Errorf("a kind that is back with other slots: %q", got)
	}
}
