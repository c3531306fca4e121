package relay

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// A server that takes connections and never reads, and one that reads all and never answers.
func TestR54AttemptThatStandsStillIsGivenUp(t *testing.T) {
	large := map[string]string{"a": strings.Repeat("x", 64<<20)} // more than the network holds
	for name, serve := range map[string]func(net.Conn){
		"never reads":   func(net.Conn) {},
		"never answers": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, // until it is closed
	} {
		t.Run(name, func(t *testing.T) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			taken := make(chan net.Conn, 100)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					taken <- c
					go serve(c)
				}
			}()
			r := setup(t, t.TempDir()).to("http://" + l.Addr().String()).open().soon()
			r.uploads.stall = 50 * time.Millisecond
			r.deliver()
			id := r.uploading(large)
			first, second := <-taken, <-taken // the first attempt has ended, and not because this end has
			if task := r.task(id); task.State != Uploading || !strings.Contains(r.log.String(), "no byte was sent or received for 50ms") {
				t.Errorf("%+v\n%s", task, r.log)
			}
			if _, err := r.status.Cancel(id); err != nil {
				t.Error(err)
			}
			r.untilState(id, Canceled)
			r.stop()
			_, _ = first.Close(), second.Close() // the relay has left
		})
	}
}

// The relay dies after the orchestrator has taken all and before that is on disk.
func TestR55UploadIsMadeAgainWithTheSameKeyAfterACrash(t *testing.T) {
	var r *rig
	dir := t.TempDir()
	orchestrator := newParty(t, func(n int, _ http.ResponseWriter, _ sent) {
		if n == 1 {
			r.copyTo(dir)
		}
	})
	r = setup(t, t.TempDir()).to(orchestrator.URL).open().soon()
	id := r.uploading(three)
	if n := len(orchestrator.all()); n > 0 || r.task(id).State != Uploading {
		t.Errorf("before all was sent: %s after %d requests", r.task(id).State, n)
	}
	r.deliver().untilState(id, Succeeded)
	r.stop()
	next := r.at(dir).open()
	if got := next.task(id).State; got != Uploading {
		t.Errorf("found %s", got)
	}
	next.deliver().untilState(id, Succeeded)
	got := orchestrator.all()
	if len(got) != 2 || got[0].Header.Get("Idempotency-Key") != string(id) || got[1].Header.Get("Idempotency-Key") != string(id) || got[0].Length != got[1].Length {
		t.Errorf("the orchestrator got %d requests", len(got))
	}
	if n := next.task(id).Attempt; n != 1 {
		t.Errorf("its program ran %d times", n)
	}
}

func TestR26UploadGoesOnAfterARestartWithoutItsProgram(t *testing.T) {
	tried := make(chan struct{}, 2)
	orchestrator := newParty(t, func(n int, w http.ResponseWriter, r sent) {
		answers(http.StatusInternalServerError)(n, w, r)
		tried <- struct{}{}
	})
	r := setup(t, t.TempDir()).to(orchestrator.URL).open().deliver()
	id := r.uploading(oneFile)
	<-tried
	r = r.again(nil)
	r.run(func(context.Context, jobs.Job, func(jobs.Progress)) (map[string]string, error) {
		t.Error("its program runs again")
		return nil, nil
	})
	task := r.untilState(id, Succeeded)
	if task.Attempt != 1 || !strings.Contains(orchestrator.all()[1].Body, oneFile["a.txt"]) {
		t.Errorf("%+v", task)
	}
}

func TestR26FileThatWasChangedIsNotDelivered(t *testing.T) {
	const name = "b.txt"
	for what, change := range map[string]func(path string) error{
		"other bytes": func(path string) error { return os.WriteFile(path, []byte("what the program has MADE"), 0o600) },
		"longer":      func(path string) error { return os.WriteFile(path, []byte("what the program has made!"), 0o600) },
		"shorter":     func(path string) error { return os.Truncate(path, 1) },
		"gone":        os.Remove,
		"a link": func(path string) error {
			if err := os.Rename(path, path+"2"); err != nil {
				return err
			}
			return os.Symlink(name+"2", path)
		},
	} {
		for _, presigned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, presigned %t", what, presigned), func(t *testing.T) {
				var orchestrator *party
				orchestrator = newParty(t, func(_ int, w http.ResponseWriter, _ sent) {
					_, _ = fmt.Fprintf(w, `{"uploads":[{"name":"a.txt","url":"%s/a"},{"name":"b.txt","url":"%s/b"}]}`, orchestrator.URL, orchestrator.URL)
				})
				r := setup(t, t.TempDir()).to(orchestrator.URL)
				r.Presigned, r.Storage = presigned, local(orchestrator.Server)
				r.open()
				id := r.uploading(map[string]string{"a.txt": "good", name: "what the program has made"})
				if err := change(r.tasks.dir.of(id, artifactsDir, name)); err != nil {
					t.Fatal(err)
				}
				r = r.again(nil).deliver()
				task := r.untilState(id, Failed)
				if task.Error.Code != codeUploadFailed || !strings.Contains(task.Error.Message, "artifact b.txt: the file on disk is not as the task has made it") {
					t.Errorf("error %+v", task.Error)
				}
				orchestrator.Close() // it has seen all
				for _, s := range orchestrator.whole() {
					if !presigned || s.URI == "/b" || strings.Contains(s.Body, `"complete"`) {
						t.Errorf("the orchestrator got %+v", s)
					}
				}
			})
		}
	}
}

func TestR15CancelWhileAnUploadIsUnderWay(t *testing.T) {
	under, aborted := make(chan struct{}), make(chan error, 1)
	orchestrator := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		close(under)
		_, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			<-r.Context().Done()
			err = r.Context().Err()
		}
		aborted <- err
	})
	r := newRigTo(t, orchestrator.URL)
	id := r.uploading(oneFile)
	<-under
	if resp := r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/cancel", ""); resp.Status != http.StatusAccepted {
		t.Errorf("cancel: %+v", resp)
	}
	if err := <-aborted; err == nil {
		t.Error("the upload was not aborted")
	}
	r.untilState(id, Canceled)
	if resp := r.call(http.MethodPost, "/v1/tasks/"+string(id)+"/cancel", ""); resp.Status != http.StatusConflict {
		t.Errorf("cancel again: %+v", resp)
	}
}

func TestR15CancelBetweenAttemptsIsDoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusServiceUnavailable, 0)
		r := inBubble(t, s).deliver()
		id := r.uploading(oneFile)
		time.Sleep(time.Hour)
		before := s.count()
		if task, err := r.status.Cancel(id); err != nil || task.State != Canceled || task.CancelRequested {
			t.Errorf("cancel: %+v, %v", task, err)
		}
		time.Sleep(48 * time.Hour)
		if task := r.task(id); task.State != Canceled || s.count() != before {
			t.Errorf("%s after %d further attempts", task.State, s.count()-before)
		}
		r.stop()
	})
}

func TestR53DeadOrchestratorCostsLittle(t *testing.T) {
	const tasks = 1000
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusBadGateway, 0)
		r := inBubble(t, s)
		r.uploads.Log = slog.New(slog.DiscardHandler)
		r.deliver()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		goroutines := runtime.NumGoroutine()
		for range tasks { // without files: an attempt that has failed writes nothing
			now := time.Now()
			r.uploads.start(r.tasks.put(&Task{ID: newID(now), State: Uploading, UploadingAt: now, Artifacts: []Artifact{{Name: "a"}}}))
		}
		time.Sleep(2 * time.Hour)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := runtime.NumGoroutine() - goroutines; n > tasks+20 {
			t.Errorf("%d goroutines for %d tasks", n, tasks)
		}
		if after.HeapAlloc > before.HeapAlloc+16<<20 {
			t.Errorf("the heap has grown by %d bytes", after.HeapAlloc-before.HeapAlloc)
		}
		if got := r.tasks.count(Uploading); got != tasks || s.count() < tasks*10 {
			t.Errorf("%d tasks are uploading after %d attempts", got, s.count())
		}
		t.Logf("%d goroutines and %d bytes for %d tasks", runtime.NumGoroutine()-goroutines, int64(after.HeapAlloc)-int64(before.HeapAlloc), tasks)
		r.stop()
	})
}

func TestR55WithoutAnOrchestratorATaskSucceedsAtOnce(t *testing.T) {
	r := newRig(t).deliver()
	id := r.uploading(oneFile)
	r.untilState(id, Succeeded)
	// One that the last relay was still uploading, to an orchestrator that this one does not have.
	r = r.again(func(r *rig) { r.to("http://127.0.0.1:1") })
	id = r.uploading(oneFile)
	r = r.again(func(r *rig) { r.Orchestrator = nil }).deliver()
	r.untilState(id, Succeeded)
}
