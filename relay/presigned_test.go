package relay

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
)

// signed is in each URL of these tests, and must be nowhere else.
const signed = "X-Amz-Signature=signature-canary"

// giver is an orchestrator that names places of a store. It answers the nth begin, from 1, by begin.
type giver struct {
	*party
	store  *party
	begins int
}

// newGiver starts an orchestrator, and a store that answers by put.
func newGiver(t *testing.T, begin func(n int, store string) (int, string), put func(n int, w http.ResponseWriter, r sent)) *giver {
	t.Helper()
	g := &giver{store: newParty(t, put)}
	var mu sync.Mutex
	g.party = newParty(t, func(_ int, w http.ResponseWriter, r sent) {
		if !strings.HasPrefix(r.Body, `{"phase":"begin"`) {
			return
		}
		mu.Lock()
		g.begins++
		code, text := begin(g.begins, g.store.URL)
		mu.Unlock()
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	})
	return g
}

// placesFor names a place for each of two artifacts.
func placesFor(n int, store string) (int, string) {
	return http.StatusOK, fmt.Sprintf(`{"uploads":[
		{"name":"b.mp4","url":"%s/b?n=%d&%s","method":"POST","headers":{"X-Kept":"yes","Content-Type":"video/x-other"}},
		{"name":"a.txt","url":"%s/a?n=%d&%s"}]}`, store, n, signed, store, n, signed)
}

var two = map[string]string{"a.txt": "first", "b.mp4": strings.Repeat("second", 100_000)}

func (g *giver) rig(t *testing.T) *rig {
	t.Helper()
	r := setup(t, t.TempDir()).to(g.URL)
	r.Presigned, r.Storage = true, local(g.store.Server)
	return r.open().soon().deliver()
}

// checkSecret looks for a URL, the token or a header of a place in all that the relay has written.
func (r *rig) checkSecret() {
	r.t.Helper()
	texts := map[string]string{"the log": r.log.String()}
	err := filepath.WalkDir(r.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
	for where, text := range texts {
		for _, secret := range []string{"signature-canary", "X-Amz-", testToken} {
			if strings.Contains(text, secret) {
				r.t.Errorf("%s has %s:\n%s", where, secret, text)
			}
		}
	}
}

func TestR52ArtifactsAreSentToTheirPlaces(t *testing.T) {
	g := newGiver(t, placesFor, nil)
	r := g.rig(t)
	id := r.uploading(two)
	task := r.untilState(id, Succeeded)
	asked, put := g.all(), g.store.all()
	if len(asked) != 2 || len(put) != 2 {
		t.Fatalf("the orchestrator got %+v, the store %d requests", asked, len(put))
	}
	for i, phase := range []string{"begin", "complete"} {
		want := fmt.Sprintf(`{"phase":%q,"task_id":%q,"job_id":"job_123","kind":"music","artifacts":%s}`, phase, id, jsonOf(t, task.Artifacts))
		if s := asked[i]; s.Body != want || s.URI != "/api/jobs/job_123/relay-upload" || s.Header.Get(TokenHeader) != testToken || s.Header.Get("Idempotency-Key") != string(id) {
			t.Errorf("%s: %+v", phase, s)
		}
	}
	a, b := put[0], put[1]
	if a.Method != http.MethodPut || a.URI != "/a?n=1&"+signed || a.Body != two["a.txt"] || a.Length != 5 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("the first file: %+v", a)
	}
	if b.Method != http.MethodPost || b.Body != two["b.mp4"] || b.Length != 600_000 || b.Header.Get("X-Kept") != "yes" || b.Header.Get("Content-Type") != "video/x-other" {
		t.Errorf("the second file: %+v", b.Header)
	}
	for _, s := range put {
		if s.Header.Get(TokenHeader)+s.Header.Get("Idempotency-Key") != "" {
			t.Errorf("the store was told what is for the orchestrator: %v", s.Header)
		}
	}
	r.checkSecret()
}

// Whatever the orchestrator answers to begin: nothing is sent elsewhere, and the task has failed with a reason.
func TestR52AnswersThatAreNoPlaces(t *testing.T) {
	one := func(fields string) func(int, string) (int, string) {
		return func(_ int, store string) (int, string) {
			return 200, fmt.Sprintf(`{"uploads":[{"name":"a.txt","url":"%s/a?%s"},{"name":"b.mp4",%s}]}`, store, signed, strings.ReplaceAll(fields, "STORE", store))
		}
	}
	text := func(code int, text string) func(int, string) (int, string) {
		return func(int, string) (int, string) { return code, text }
	}
	for name, tt := range map[string]struct {
		begin func(int, string) (int, string)
		want  string // in the error
	}{
		"nothing":                {text(200, ""), "something else than"},
		"no JSON":                {text(200, "<html>"+signed), "something else than"},
		"another shape":          {text(200, `{"uploads":{"name":"`+signed+`"}}`), "something else than"},
		"null":                   {text(200, "null"), "0 places for 2 artifacts"},
		"too much":               {text(200, `{"uploads":[`+strings.Repeat(" ", 5<<20)+`]}`), "at most 4194304 bytes"},
		"too few":                {text(200, `{"uploads":[{"name":"a.txt","url":"https://x"}]}`), "1 places for 2 artifacts"},
		"one twice":              {text(200, `{"uploads":[{"name":"a.txt","url":"https://x"},{"name":"a.txt","url":"https://y"}]}`), "2 places for 2 artifacts"},
		"another's":              {text(200, `{"uploads":[{"name":"a.txt","url":"https://x"},{"name":"c","url":"https://y"}]}`), "a.txt: it may not be called"},
		"no URL":                 {one(`"url":""`), "it may not be called"},
		"a host not in the list": {one(`"url":"http://169.254.169.254/?` + signed + `"`), "host 169.254.169.254 is not in the list"},
		"a scheme":               {one(`"url":"file:///etc/passwd?` + signed + `"`), "must begin with https"},
		"a user":                 {one(`"url":"http://user:` + signed + `@127.0.0.1/"`), "must not have a user"},
		"a port":                 {one(`"url":"http://127.0.0.1:1/?` + signed + `"`), "port 1 is not one that is allowed"},
		"a method":               {one(`"url":"STORE/b?` + signed + `","method":"DELETE"`), "neither PUT nor POST"},
		"a header":               {one(`"url":"STORE/b?` + signed + `","headers":{"a":"b\r\n` + signed + `"}`), "cannot be sent"},
		"a refusal":              {text(403, signed), "403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGiver(t, tt.begin, nil)
			r := g.rig(t)
			task := r.untilState(r.uploading(two), Failed)
			if task.Error.Code != codeUploadFailed || !strings.Contains(task.Error.Message, tt.want) {
				t.Errorf("error %+v, want %q", task.Error, tt.want)
			}
			if len(g.all()) != 1 || len(g.store.all()) > 1 {
				t.Errorf("the orchestrator got %d requests, the store %d", len(g.all()), len(g.store.all()))
			}
			r.checkSecret()
		})
	}
}

func TestR52OrchestratorThatHasThemAlreadyIsSentNothing(t *testing.T) {
	for _, said := range []string{"", `{"error":"exists"}`} {
		g := newGiver(t, func(int, string) (int, string) { return http.StatusConflict, said }, nil)
		r := g.rig(t)
		r.untilState(r.uploading(two), Succeeded)
		if len(g.all()) != 1 || len(g.store.all()) != 0 {
			t.Errorf("the orchestrator got %d requests, the store %d", len(g.all()), len(g.store.all()))
		}
	}
}

// A break begins again with begin, and so with other URLs.
func TestR52BreakBeginsAgain(t *testing.T) {
	for _, code := range []int{400, 403, 409, 408, 425, 429, 500, 503} {
		g := newGiver(t, placesFor, func(n int, w http.ResponseWriter, _ sent) {
			if n == 2 {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, signed)
			}
		})
		r := g.rig(t)
		r.untilState(r.uploading(two), Succeeded)
		put := g.store.all()
		if len(g.all()) != 3 || len(put) != 4 || put[2].URI != "/a?n=2&"+signed || put[3].URI != "/b?n=2&"+signed {
			t.Errorf("%d: the orchestrator got %d requests, the store %d", code, len(g.all()), len(put))
		}
		r.checkSecret()
	}
	for _, code := range []int{301, 307, 401, 404, 412, 413} {
		g := newGiver(t, placesFor, func(_ int, w http.ResponseWriter, _ sent) {
			w.Header().Set("Location", "/elsewhere?"+signed)
			w.WriteHeader(code)
		})
		r := g.rig(t)
		task := r.untilState(r.uploading(two), Failed)
		if want := "the store of artifact a.txt has refused the artifacts: " + statusText(code); task.Error.Message != want || len(g.store.all()) != 1 {
			t.Errorf("%d: %+v after %d requests", code, task.Error, len(g.store.all()))
		}
		r.checkSecret()
	}
}

func TestR52LastStepIsMadeAgain(t *testing.T) {
	completes := 0
	var store *party
	orchestrator := newParty(t, func(n int, w http.ResponseWriter, r sent) {
		if strings.Contains(r.Body, `"complete"`) {
			if completes++; completes == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
			return
		}
		_, text := placesFor(n, store.URL)
		_, _ = io.WriteString(w, text)
	})
	store = newParty(t, nil)
	g := &giver{party: orchestrator, store: store}
	r := g.rig(t)
	r.untilState(r.uploading(two), Succeeded)
	if completes != 2 || len(store.all()) != 4 {
		t.Errorf("%d times complete, %d files", completes, len(store.all()))
	}
}

// A real server of S3 checks signatures: the first one is spoilt, the second one is good.
func TestR52RealStore(t *testing.T) {
	at := s3test.Gateway(t, "results")
	client := s3test.Client(t, at)
	orchestrator := newParty(t, func(n int, w http.ResponseWriter, r sent) {
		var about manifest
		if err := json.Unmarshal([]byte(r.Body), &about); err != nil {
			t.Error(err)
		}
		var places []place
		for _, a := range about.Artifacts {
			u, err := client.PresignedPutObject(t.Context(), "results", about.JobID+"/"+a.Name, time.Hour)
			if err != nil {
				t.Error(err)
				return
			}
			text := u.String()
			if n == 1 {
				text = strings.Replace(text, "X-Amz-Date=2", "X-Amz-Date=1", 1)
			}
			places = append(places, place{Name: a.Name, URL: text})
		}
		_, _ = io.WriteString(w, jsonOf(t, map[string]any{"uploads": places}))
	})
	r := setup(t, t.TempDir()).to(orchestrator.URL)
	r.Presigned, r.Storage = true, local(orchestrator.Server)
	r.Storage.Ports = egress.Only(parseURL(t, at)).Ports
	r.open().soon().deliver()
	files := map[string]string{"a.txt": "small", "b.empty": "", "c.mp4": strings.Repeat("film", 1<<19)}
	r.untilState(r.uploading(files), Succeeded)
	for name, want := range files {
		o, err := client.GetObject(t.Context(), "results", "job_123/"+name, minio.GetObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(o)
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		_ = o.Close() // it was only read
	}
	if n := len(orchestrator.all()); n != 3 { // begin, begin, complete
		t.Errorf("the orchestrator got %d requests", n)
	}
	r.checkSecret()
}
