package cli

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/openapi"
)

// TestG42LeaderAnswersAsDescribed asks for jobs and dead letters, and holds what is answered against the OpenAPI document.
func TestG42LeaderAnswersAsDescribed(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("Give.up", `exit 1`)
	l := g.leader("0")
	g.worker(l.host, l.port, "job.assign.>")
	good, dead := l.submit("calcA", "7"), l.submit("Give.up", "--retry-on", "exit", "--max-attempts", "2")
	l.untilState(good, "succeeded")
	l.untilState(dead, "failed")
	a := &asker{&testGateway{t: t}, newContract(t, openapi.JSON()), l.url}
	const jobs, unknown = "/api/v1/grid/jobs", "/35918bc9-196d-40ea-9779-889d79b753f0"
	a.ask(200, "GET", jobs+"?status=failed&type=grid.Give.up", "", nil)
	a.ask(200, "GET", jobs+"/"+good, "", nil)
	a.ask(200, "GET", jobs+"/"+dead, "", nil)
	a.ask(200, "GET", jobs+"/"+good+"/logs", "", nil)
	a.ask(200, "GET", jobs+"/"+good+"/events?logs=true", "", nil)
	a.ask(200, "GET", jobs+"/"+good+"/artifacts", "", nil)
	a.ask(409, "GET", jobs+"/"+good+"/result", "", nil)
	a.ask(404, "GET", jobs+unknown, "", nil)
	a.ask(409, "POST", jobs+"/"+good+"/cancel", "", nil)
	a.ask(409, "POST", jobs+"/"+good+"/retry", "", nil)
	a.ask(202, "POST", jobs+"/"+dead+"/retry", "", nil)
	l.untilState(dead, "failed")
	a.ask(200, "GET", gridDeadPath+"?count=10", "", nil)
	for _, bad := range []string{"", "?count=0", "?count=1001", "?count=x"} {
		a.ask(400, "GET", gridDeadPath+bad, "", nil)
	}
	a.ask(404, "POST", gridDeadPath+unknown+"/drop", "", nil)
	a.ask(404, "POST", gridDeadPath+"/"+good+"/drop", "", nil)
	a.ask(404, "POST", gridDeadPath+"/x/drop", "", nil)
	a.ask(200, "POST", gridDeadPath+"/"+dead+"/drop", "", nil)
	a.ask(200, "GET", "/api/v1/grid/workers", "", nil)
	a.ask(200, "GET", "/api/v1/grid/report", "", nil)
	a.ask(200, "GET", "/api/v1/grid/kinds", "", nil)
	a.ask(200, "GET", "/api/v1/overview", "", nil)
	a.ask(200, "GET", jobs+"/"+good+"/why", "", nil)
	for _, left := range a.contract.unseen() {
		if strings.Contains(left, "/api/v1/grid/") {
			t.Errorf("described, but never answered: %s", left)
		}
	}
}
