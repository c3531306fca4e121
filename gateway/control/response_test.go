package control_test

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// That every answer ends with a newline is checked by the rig.
func TestAnswersAreWrittenForPeople(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if a := r.do("POST", wire.PathLease, nil); !strings.Contains(a.body, "Authorization: Bearer <token>") {
		t.Errorf("answered %s", a.body)
	}
	w := r.worker()
	id := r.submit()
	body := broken(w.lease().LeaseID, "X")
	body["error_message"], body["retryable"] = "a < b && c", false
	w.report("failed", id, body)
	if a := r.do("GET", "/calc/zpe/jobs/"+id, nil); !strings.Contains(a.body, `"detail":"X: a < b && c"`) {
		t.Errorf("job reads %s", a.body)
	}
}
