package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestG77AnAssignedRequestSaysWhatItGoesOnFrom(t *testing.T) {
	const subject, request = "job.assign.calcA", ` {"JobId":"35918bc9-196d-40ea-9779-889d79b753f0","ClientId":"clientA","ExecName":"calcA","Args":["}"],"Files":[]} `
	b := &Blob{Name: "checkpoint.tar", SHA256: strings.Repeat("0a", 32), Size: 7}
	for _, tt := range []struct {
		attempt    int
		checkpoint *Blob
		want       string // behind the request
	}{
		{1, nil, "} "},
		{2, nil, `,"Attempt":2} `},
		{1, b, `,"Attempt":1,"Checkpoint":{`},
		{3, b, `,"Attempt":3,"Checkpoint":{`},
	} {
		got := AssignPayload([]byte(request), subject, tt.attempt, tt.checkpoint)
		if want := strings.TrimSuffix(request, "} ") + tt.want; !strings.HasPrefix(string(got), want) {
			t.Errorf("the payload is %s, want %s", got, want)
		}
		var want, read JobRequest
		if err := json.Unmarshal([]byte(request), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &read); err != nil {
			t.Fatal(err)
		}
		if want.Checkpoint = tt.checkpoint; tt.want != "} " {
			want.Attempt = tt.attempt
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Error(diff)
		}
	}
	// One that fills its frame has no room for it.
	most := MaxFrame - minFrame - len(subject)
	more := len(AssignPayload([]byte("{}"), subject, 2, b)) - len("{}")
	for over, fits := range map[int]bool{0: true, 1: false} {
		large := "{" + strings.Repeat("x", most-more-len("{}")+over) + "}"
		got := AssignPayload([]byte(large), subject, 2, b)
		if has := strings.Contains(string(got), "Checkpoint"); has != fits || len(got) > most {
			t.Errorf("%d bytes beyond the frame: a payload of %d bytes, at most %d, with it is %v", over, len(got), most, has)
		}
	}
}
