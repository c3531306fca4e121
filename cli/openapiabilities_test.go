package cli

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// askAbilities asks for what the dashboard shows and does.
func (a *asker) askAbilities(reader string) {
	const fleet = "/api/v1/fleet"
	for _, path := range []string{"/scopes", "/whoami", "/overview", "/fleet/kinds", "/fleet/workers", "/system/kinds"} {
		a.ask(200, "GET", "/api/v1"+path, reader, nil)
		a.ask(400, "GET", "/api/v1"+path+"?x=1", reader, nil)
		a.ask(401, "GET", "/api/v1"+path, "", nil)
	}
	for _, path := range []string{"/tokens", "/audit"} {
		a.ask(200, "GET", "/api/v1"+path, testAdmin, nil)
		a.ask(403, "GET", "/api/v1"+path, reader, nil)
	}
	a.ask(200, "GET", fleet+"/jobs/slow/why", reader, nil)
	a.ask(404, "GET", fleet+"/jobs/unknown/why", reader, nil)
	for _, query := range []string{"kind=mock", "worker=none", "id_prefix=slo", "error=0123456789abcdef", "since=24h&until=1s", "q=slow", "full=true&limit=5"} {
		a.ask(200, "GET", fleet+"/jobs?"+query, reader, nil)
	}
	for _, query := range []string{"kind=a%20b", "id_prefix=%20", "error=x", "since=soon", "until=-1h", "full=maybe", "kind=mock&type=fleet.mock", "q=" + strings.Repeat("x", 201)} {
		a.ask(400, "GET", fleet+"/jobs?"+query, reader, nil)
	}
	for _, verb := range []string{"pause", "resume"} {
		a.ask(200, "POST", fleet+"/kinds/mock/"+verb, testAdmin, nil)
		a.ask(404, "POST", fleet+"/kinds/nothing/"+verb, testAdmin, nil)
		a.ask(400, "POST", fleet+"/kinds/mock/"+verb, testAdmin, `{"x":1}`)
		a.ask(403, "POST", fleet+"/kinds/mock/"+verb, reader, nil)
	}
	var workers struct{ Items []jobapi.Worker }
	readJSON(a.ask(200, "GET", fleet+"/workers", testAdmin, nil), &workers)
	for _, verb := range []string{"drain", "resume"} {
		a.ask(200, "POST", fleet+"/workers/"+workers.Items[0].ID+"/"+verb, testAdmin, nil)
		a.ask(404, "POST", fleet+"/workers/unknown/"+verb, testAdmin, nil)
		a.ask(403, "POST", fleet+"/workers/unknown/"+verb, reader, nil)
	}
	a.ask(201, "POST", fleet+"/inputs?name=a.txt", testAdmin, nil)
	a.ask(400, "POST", fleet+"/inputs?name=a%2Fb", testAdmin, `"hello"`, "Content-Type", "application/octet-stream")
	a.ask(403, "POST", fleet+"/inputs?name=a.txt", reader, `"hello"`, "Content-Type", "application/octet-stream")
	a.ask(400, "GET", "/api/v1/events?scope=moon", reader, nil)
	a.ask(401, "GET", "/api/v1/events", "", nil)
	a.contract.check("GET", "/api/v1/events?scope=fleet", "", a.beginning("/api/v1/events?scope=fleet", reader))
}

// beginning returns what a stream that does not end begins with.
func (a *asker) beginning(uri, token string) reply {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+uri, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body := make([]byte, 1000)
	n, err := resp.Body.Read(body)
	if err != nil {
		a.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, body[:n]}
}

// askSchedules asks for jobs that come again and again.
func (a *asker) askSchedules(reader string) {
	const all, one = "/api/v1/schedules", "/api/v1/schedules/nightly"
	const nightly = `{"cron":"30 2 * * *","zone":"Europe/Berlin","kind":"thumbnail","params":{"dpi":300}}`
	a.ask(403, "PUT", one, reader, nightly)
	a.ask(400, "PUT", one, testAdmin, `{"cron":"99 * * * *","kind":"thumbnail"}`)
	a.ask(400, "PUT", one, testAdmin, `{"cron":"@daily","kind":"thumbnail","params":{"dpi":7}}`)
	a.ask(200, "PUT", one, testAdmin, nightly)
	a.ask(200, "GET", one, reader, nil)
	a.ask(200, "GET", all, reader, nil)
	a.ask(400, "GET", all+"?after=%20", reader, nil)
	a.ask(404, "GET", all+"/other", reader, nil)
	a.ask(201, "POST", one+"/run", testAdmin, nil)
	a.ask(200, "POST", one+"/pause", testAdmin, nil)
	a.ask(200, "POST", one+"/resume", testAdmin, nil)
	a.ask(200, "DELETE", one, testAdmin, nil)
	a.ask(404, "DELETE", one, testAdmin, nil)
	a.ask(404, "POST", one+"/run", testAdmin, nil)
}
