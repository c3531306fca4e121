package relay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

func TestR50ArtifactsGoToTheOrchestratorOfTheConfiguration(t *testing.T) {
	orchestrator := newParty(t, nil)
	r := newRigTo(t, orchestrator.URL+"/some%20base/")
	if resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"j","kind":"music","orchestrator":"http://elsewhere.test"}`); resp.Status != http.StatusBadRequest {
		t.Errorf("a request that names an orchestrator: %+v", resp)
	}
	resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"job.1_2-x","kind":"music"}`, "X-Forwarded-Host", "elsewhere.test", "Host", "elsewhere.test")
	var task struct {
		ID jobs.ID `json:"task_id"`
	}
	if err := json.Unmarshal([]byte(resp.Body), &task); err != nil {
		t.Fatal(err)
	}
	r.made(r.claim(task.ID), oneFile)
	r.untilState(task.ID, Succeeded)
	got := orchestrator.all()
	if len(got) != 1 || got[0].Method != http.MethodPost || got[0].URI != "/some%20base/api/jobs/job.1_2-x/relay-upload" {
		t.Fatalf("the orchestrator got %+v", got)
	}
	if tokens := got[0].Header.Values(TokenHeader); !slices.Equal(tokens, []string{testToken}) {
		t.Errorf("tokens %q", tokens)
	}
	if got := r.uploads.address(&Task{JobID: "../a/b?c#d e"}); !strings.HasSuffix(got, "/some%20base/api/jobs/..%2Fa%2Fb%3Fc%23d%20e/relay-upload") {
		t.Errorf("an id with all that means something in a URL goes to %s", got)
	}
}

// newRigTo returns a relay with a server that delivers to an orchestrator, and tries again at once.
func newRigTo(t *testing.T, base string) *rig {
	t.Helper()
	return setup(t, t.TempDir()).to(base).open().soon().deliver()
}

// three has the names in the order in which they are sent. One is empty, and one is larger than what is sent at once.
var three = map[string]string{"a.json": `{"a":1}`, "b.empty": "", "c.mp4": strings.Repeat("film\r\n--", 40_000)}

func TestR51PartsComeInOrderWithAKnownLength(t *testing.T) {
	orchestrator := newParty(t, nil)
	r := newRigTo(t, orchestrator.URL)
	id := r.uploading(three)
	task := r.untilState(id, Succeeded)
	got := orchestrator.all()[0]
	if got.Length != int64(len(got.Body)) || got.Header.Get("Idempotency-Key") != string(id) {
		t.Errorf("Content-Length %d of %d bytes, headers %v", got.Length, len(got.Body), got.Header)
	}
	mediaType, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		t.Fatalf("%s, %v", mediaType, err)
	}
	form := multipart.NewReader(strings.NewReader(got.Body), params["boundary"])
	var names, types []string
	for i := 0; ; i++ {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, part.Header.Get("Content-Type"))
		if i == 0 {
			want := fmt.Sprintf(`{"task_id":%q,"job_id":"job_123","kind":"music","artifacts":%s}`, id, jsonOf(t, task.Artifacts))
			if part.FormName() != "metadata" || string(text) != want {
				t.Errorf("first part %s: %s, want %s", part.FormName(), text, want)
			}
			continue
		}
		if part.FormName() != "file" || string(text) != three[part.FileName()] {
			t.Errorf("part %d: %s %s, %d bytes", i, part.FormName(), part.FileName(), len(text))
		}
		names = append(names, part.FileName())
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(three)), names); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"application/json", "application/json", "application/octet-stream", "video/mp4"}, types); d != "" {
		t.Error(d)
	}

	// Python's own parser reads it as well.
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	read := exec.CommandContext(t.Context(), python, "-c", `
import email, email.policy, json, sys
m = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.HTTP)
print(json.dumps([[p.get_param("name", header="content-disposition"), p.get_filename(), len(p.get_payload(decode=True)), len(p.defects)] for p in m.iter_parts()]))`)
	read.Stdin = strings.NewReader("Content-Type: " + got.Header.Get("Content-Type") + "\r\n\r\n" + got.Body)
	out, err := read.Output()
	if err != nil {
		t.Fatal(err)
	}
	about := len(`{"task_id":"","job_id":"job_123","kind":"music","artifacts":}`) + len(id) + len(jsonOf(t, task.Artifacts))
	want := fmt.Sprintf(`[["metadata",null,%d,0],["file","a.json",7,0],["file","b.empty",0,0],["file","c.mp4",320000,0]]`, about)
	if got := compact(t, string(out)); got != want {
		t.Errorf("Python reads %s, want %s", got, want)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A body of zeros that is far larger than what the process may use for it, in a file without blocks.
func TestR51LargeArtifactIsStreamed(t *testing.T) {
	const size, sum = 512 << 20, "9acca8e8c22201155389f65abbf6bc9723edc7384ead80503839f49dcc56d767"
	var received int64
	orchestrator := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		received, _ = io.Copy(io.Discard, r.Body) // the length shows whether it was whole
	})
	r := newRigTo(t, orchestrator.URL)
	c := r.claim(r.queued(""))
	r.write(c.Job, "large", "")
	if err := os.Truncate(r.tasks.dir.of(c.Job, artifactsDir, "large"), size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.finish(c, artifact.Result{Artifacts: []artifact.Artifact{{Name: "large", Size: size, SHA256: sum}}})
	r.untilState(c.Job, Succeeded)
	runtime.ReadMemStats(&after)
	if received <= size || received > size+4096 {
		t.Errorf("received %d bytes", received)
	}
	if all := after.TotalAlloc - before.TotalAlloc; all > 32<<20 {
		t.Errorf("%d bytes were allocated for %d", all, size)
	}
}

func TestR51BrokenAttemptIsMadeAgainFromTheBeginning(t *testing.T) {
	var whole []string
	attempt := 0
	orchestrator := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if attempt++; attempt < 3 { // the connection ends in the middle of a file
			if _, err := io.CopyN(io.Discard, r.Body, 300_000); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength || r.Header.Get("Idempotency-Key") == "" {
			t.Errorf("%d of %d bytes, %v, %v", len(body), r.ContentLength, err, r.Header)
		}
		whole = append(whole, string(body))
	})
	r := newRigTo(t, orchestrator.URL)
	large := strings.Repeat("0123456789abcdef", 1<<19) // more than the network holds
	id := r.uploading(map[string]string{"a": "small", "b": large})
	r.untilState(id, Succeeded)
	if attempt != 3 || len(whole) != 1 || strings.Count(whole[0], large) != 1 {
		t.Errorf("%d attempts, and %d of them were whole", attempt, len(whole))
	}
}

func TestR53AnswersOfTheOrchestrator(t *testing.T) {
	elsewhere := newParty(t, nil)
	const again = Uploading
	for code, want := range map[int]State{
		200: Succeeded, 201: Succeeded, 204: Succeeded, 409: Succeeded,
		408: again, 425: again, 429: again, 500: again, 502: again, 503: again, 599: again,
		301: Failed, 302: Failed, 304: Failed, 307: Failed, 308: Failed, 400: Failed, 401: Failed, 403: Failed, 404: Failed, 410: Failed, 413: Failed, 422: Failed,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			orchestrator := newParty(t, func(n int, w http.ResponseWriter, _ sent) {
				if n == 1 {
					w.Header().Set("Location", elsewhere.URL)
					w.WriteHeader(code)
					_, _ = io.WriteString(w, "what-the-answer-says") // some have no body
				}
			})
			r := newRigTo(t, orchestrator.URL)
			id := r.uploading(oneFile)
			task := r.until(id, "at its end", func(t *Task) bool { return t.State.Terminal() })
			attempts := 1
			if want == again {
				want, attempts = Succeeded, 2
			}
			if task.State != want || len(orchestrator.all()) != attempts {
				t.Errorf("%s after %d attempts: %+v", task.State, len(orchestrator.all()), task.Error)
			}
			if want == Failed && (task.Error.Code != codeUploadFailed || !strings.Contains(task.Error.Message, statusText(code))) {
				t.Errorf("error %+v", task.Error)
			}
			if said := r.log.String() + jsonOf(t, r.onDisk(id)); strings.Contains(said, "what-the-answer-says") || strings.Contains(said, testToken) {
				t.Errorf("the answer or the token was kept: %s", said)
			}
			if f, err := r.tasks.openArtifact(id, task.Artifacts[0]); err != nil {
				t.Errorf("its artifact: %v", err)
			} else {
				_ = f.Close() // it was only opened
			}
		})
	}
	if got := elsewhere.all(); len(got) > 0 {
		t.Errorf("a redirect was followed: %+v", got)
	}
}

// A server that refuses by the head of a request alone, and closes the connection.
func TestR53LargeBodyIsRefusedBeforeItIsSent(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var calls atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") // the relay says what it has got
			_ = c.Close()                                                                                        // the same
		}
	}()
	r := newRigTo(t, "http://"+l.Addr().String())
	task := r.untilState(r.uploading(map[string]string{"a": strings.Repeat("x", 16<<20)}), Failed)
	if calls.Load() != 1 || !strings.Contains(task.Error.Message, "413") {
		t.Errorf("%d calls, %+v\n%s", calls.Load(), task.Error, r.log)
	}
}

func TestR53UploadIsTriedForADayWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusServiceUnavailable, 0)
		r := inBubble(t, s).deliver()
		began := time.Now()
		id := r.uploading(oneFile)
		time.Sleep(uploadFor - time.Minute)
		if task := r.task(id); task.State != Uploading {
			t.Fatalf("before a day is over: %+v", task)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		task := r.task(id)
		if task.State != Failed || task.Error.Code != codeUploadFailed || !strings.Contains(task.Error.Message, "24h") || !strings.Contains(task.Error.Message, "503") {
			t.Fatalf("after a day: %s %+v", task.State, task.Error)
		}
		if took := task.FinishedAt.Sub(began); took < uploadFor || took > uploadFor+5*time.Minute {
			t.Errorf("given up after %s", took)
		}
		pauses := s.pauses()
		for i, pause := range pauses {
			least, most := time.Second<<min(i, 20)/2, min(time.Second<<min(i, 20)*3/2, 5*time.Minute)
			if pause < min(least, 100*time.Second) || pause > most {
				t.Errorf("pause %d is %s", i, pause)
			}
		}
		if len(pauses) < 250 || len(pauses) > 1000 {
			t.Errorf("%d pauses in a day", len(pauses))
		}

		s.do = func(int, *egress.Request) (egress.Response, error) {
			return egress.Response{Status: http.StatusOK}, nil
		}
		if _, err := r.retryUpload(id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if task := r.task(id); task.State != Succeeded || task.Error != nil || task.Progress != 1 {
			t.Errorf("after another try: %+v", task)
		}
		r.stop()
	})
}

func TestR53R54OrchestratorSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(http.StatusTooManyRequests, 77*time.Second)
		r := inBubble(t, s).deliver()
		r.uploading(oneFile)
		time.Sleep(160 * time.Second)
		synctest.Wait()
		if s.last.Stall != time.Minute || s.last.Timeout != uploadTimeout {
			t.Errorf("an attempt may stand still for %s and take %s", s.last.Stall, s.last.Timeout)
		}
		if got := s.pauses(); len(got) != 2 || got[0] != 77*time.Second || got[1] != 77*time.Second {
			t.Errorf("pauses %v", got)
		}
		r.stop()
	})
}
