package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// signedOn is the day in a pre-signed URL.
var signedOn = regexp.MustCompile(`(X-Amz-Date=|Credential=\w+%2F)\d{8}`)

// TestR52ArtifactsGoToPresignedURLs of a server that checks their signatures. URLs that have expired, and a relay that is
// killed when the artifacts are there and the orchestrator does not know, make the upload begin again.
func TestR52ArtifactsGoToPresignedURLs(t *testing.T) {
	t.Parallel()
	bucket := s3test.Gateway(t, "media")
	o := newReceiver(t)
	f := newFront(t, o)
	begun, complete, release := map[string]int{}, make(chan struct{}), make(chan struct{})
	var elsewhere, killed string
	f.answers = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		id, name := phase(body)
		f.mu.Lock()
		first := name == "complete" && id == killed && begun[id] == 2
		f.mu.Unlock()
		if first {
			complete <- struct{}{}
			<-release
			panic(http.ErrAbortHandler)
		}
		return false
	}
	f.changes = func(body, answer []byte) []byte {
		id, name := phase(body)
		f.mu.Lock()
		defer f.mu.Unlock()
		if name != "begin" {
			return answer
		}
		begun[id]++
		switch {
		case strings.Contains(string(body), `"elsewhere"`):
			elsewhere = id
			return []byte(strings.ReplaceAll(string(answer), "http://127.0.0.1:", "http://127.0.0.2:"))
		case begun[id] == 1:
			killed = id
			return signedOn.ReplaceAll(answer, []byte("${1}20200101"))
		}
		return answer
	}
	r := newTestRelay(t, "[make]\ncommand = [\"sh\", \"-c\", \"echo ran >>$LEDGER; echo one >{output}/a.txt; head -c 300000 /dev/zero >{output}/b.bin\"]\nenv = [\"LEDGER\"]\n",
		"--gpus", "none", "--orchestrator", f.URL, "--upload", "presigned", "--storage-host", strings.TrimPrefix(bucket, "http://"),
		"--callback-network", "127.0.0.0/8", "--allow-http", "--callback-secret-file", filepath.Join(o.dir, "callback.secret"))
	ledger := filepath.Join(r.dir, "ledger")
	r.env = []string{"LEDGER=" + ledger}
	o.start([]string{"S3_ENDPOINT=" + bucket, "S3_BUCKET=media", "AWS_ACCESS_KEY_ID=" + s3test.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3test.SecretKey, "AWS_REGION=" + s3test.Region}, "--presign", "s3")
	r.start()
	create := func(job string) string {
		return taskID(t, r.must(http.StatusAccepted, http.MethodPost, "/v1/tasks", `{"job_id":"`+job+`","kind":"make","callback_url":"`+f.URL+`/api/relay/events"}`))
	}
	wrong := create("elsewhere")
	if task := r.untilStatus(wrong, "failed"); task.code() != "UPLOAD_FAILED" || strings.Contains(task.Error.Message, "?") || strings.Contains(task.Error.Message, "127.0.0.2:") || wrong != elsewhere {
		t.Errorf("URLs of another host: %+v %v", task, task.Error)
	}
	id := create("job_1")
	select {
	case <-complete:
	case <-time.After(time.Minute):
		t.Fatalf("the upload is not complete within a minute: %+v\n%s", r.task(id), r.log)
	}
	before := r.log.String()
	if !strings.Contains(before, "has answered 403 Forbidden") {
		t.Errorf("the URLs that had expired are not in the log:\n%s", before)
	}
	r.kill()
	close(release)
	if _, err := os.Stat(filepath.Join(o.dir, "received", "job_1", id)); err == nil {
		t.Error("the orchestrator has the artifacts already")
	}
	r.start()
	r.untilStatus(id, "succeeded")
	store := s3.New(s3test.Client(t, bucket), "media")
	for name, want := range map[string]string{"a.txt": "one\n", "b.bin": strings.Repeat("\x00", 300000)} {
		got := storagetest.GetString(t, store, "job_1/"+id+"/"+name)
		if got != want || got != r.artifact(id, name) || o.received("job_1", id)[name] != sum(want) {
			t.Errorf("%s: the bucket has %d bytes", name, len(got))
		}
	}
	if names := namesIn(t, store); len(names) != 2 {
		t.Errorf("the bucket has %v", names)
	}
	until(t, time.Minute, "the end was told", func() bool { return slices.Contains(o.events(id), "succeeded") })
	r.stop()
	for _, secret := range []string{"X-Amz-", "Signature=", s3test.SecretKey} {
		r.absent(secret, before)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ran, err := os.ReadFile(ledger); err != nil || string(ran) != "ran\nran\n" || begun[id] != 3 || begun[wrong] != 1 {
		t.Errorf("the programs of two tasks ran: %q, %v; uploads were begun %v times, want 3 and 1", ran, err, begun)
	}
}
