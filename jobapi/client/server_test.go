package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/client"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD31ListsAreAskedForWithTheirFilters(t *testing.T) {
	var asked string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		says(200, "application/json", `{"items":[{"jobId":"a","status":"failed","request":{},"steps":[]}],"nextCursor":"~1~a~"}`)(w, r)
	}, nil)
	at := time.Date(2026, 1, 23, 9, 0, 0, 5e6, time.FixedZone("", 3600))
	q := jobapi.Query{Status: jobs.Failed, Type: "fleet.pdf", Limit: 7, Cursor: "~2~b~", Until: at}
	f := jobapi.Filter{Worker: "w 1", IDPrefix: "a", Error: "0123456789abcdef", Since: at, Text: "x&y"}
	want := "/api/v1/fleet/jobs?cursor=~2~b~&error=0123456789abcdef&id_prefix=a&limit=7&q=x%26y&since=2026-01-23T08%3A00%3A00.005Z&status=failed&type=fleet.pdf&until=2026-01-23T08%3A00%3A00.005Z&worker=w+1"
	page, err := c.ListMatching(t.Context(), "fleet", q, f)
	if err != nil || asked != want || len(page.Items) != 1 || page.Next != "~1~a~" {
		t.Errorf("asked %s\nwant %s\ngot %+v, %v", asked, want, page, err)
	}
	whole, next, err := c.Jobs(t.Context(), "fleet", jobapi.Query{}, jobapi.Filter{Text: "x"})
	if err != nil || asked != "/api/v1/fleet/jobs?full=true&q=x" || len(whole) != 1 || whole[0].ID != "a" || next != "~1~a~" {
		t.Errorf("asked %s, got %+v, %q, %v", asked, whole, next, err)
	}
}

func TestD08WhatAServerTellsOfItselfIsRead(t *testing.T) {
	answers := map[string]string{
		"GET /api/v1/scopes":                     `{"items":[{"name":"fleet","abilities":["why"],"operations":["x"]}]}`,
		"GET /api/v1/whoami":                     `{"name":"ci","scope":"operate","readOnly":true,"expiresAt":null}`,
		"GET /api/v1/tokens":                     `{"items":[{"name":"ci","scope":"operate","expiresAt":"2026-01-23T09:00:00.000Z"}]}`,
		"GET /api/v1/audit":                      `{"items":[{"at":"2026-01-23T09:00:00.000Z","token":"ci","route":"POST /x","scope":"fleet","operation":"pause","kind":"pdf","status":200,"requestId":"r"}]}`,
		"GET /api/v1/relay/report":               `{"sections":[{"title":"Disk","columns":["path"],"rows":[["/"]]}]}`,
		"GET /api/v1/fleet/kinds":                `{"items":[{"name":"pdf","params":null,"input":"one","workers":1,"slots":2,"queued":3,"running":4,"oldestQueuedAt":null,"pausedSince":null,"wait":null,"run":{"p50Ms":1,"p95Ms":2,"p99Ms":3,"n":4}}]}`,
		"POST /api/v1/fleet/inputs?name=a+b.pdf": `{"input":"inputs/1/a.pdf","bytes":5,"sha256":"00"}`,
	}
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		status := 200
		if r.Method == http.MethodPost {
			status = 201
			if text, _ := io.ReadAll(r.Body); string(text) != "hello" {
				t.Errorf("uploaded %q", text)
			}
		}
		says(status, "application/json", answers[r.Method+" "+r.URL.String()])(w, r)
	}, nil)
	ctx := t.Context()
	scopes, err := c.ServedScopes(ctx)
	who, err2 := c.WhoAmI(ctx)
	tokens, err3 := c.Tokens(ctx)
	changes, err4 := c.Audit(ctx)
	sections, err5 := c.Report(ctx, "relay")
	kinds, err6 := c.Kinds(ctx, "fleet")
	stored, err7 := c.StoreInput(ctx, "fleet", "a b.pdf", strings.NewReader("hello"), 5)
	if err := errors.Join(err, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v %s/%s/%t %s %s/%s/%s %v %s/%d/%d %+v", scopes, who.Name, who.Scope, who.ReadOnly, tokens[0].Name, changes[0].Token, changes[0].Operation, changes[0].Kind, sections, kinds[0].Name, kinds[0].Queued, kinds[0].Run.P95, stored)
	want := "[{Name:fleet Abilities:[why] Operations:[x]}] ci/operate/true ci ci/pause/pdf [{Disk [path] [[/]]}] pdf/3/2 {Input:inputs/1/a.pdf Bytes:5 SHA256:00}"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestD09AllJobsAreFollowedOverConnections(t *testing.T) {
	var calls atomic.Int32
	var asked []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery+" "+r.Header.Get("Last-Event-Id"))
		text := "id: e-1\nevent: reset\ndata: \n\nevent: job\ndata: {\"jobId\":\"a\",\"status\":\"queued\"}\n\nid: e-3\nevent: job\ndata: {\"jobId\":\"b\",\"status\":\"running\"}\n\n"
		if calls.Add(1) == 2 {
			text = ":\n\nevent: newer\ndata: x\n\nid: e-4\nevent: job\ndata: {\"jobId\":\"b\",\"status\":\"failed\"}\n\n"
		}
		says(200, "text/event-stream", text)(w, r)
	}, func(c *client.Config) { c.RetryFor = time.Minute })
	enough := errors.New("enough")
	var got []string
	err := c.FollowAll(t.Context(), jobapi.EventQuery{Scope: "fleet", Status: jobs.Running, Kind: "pdf"}, func(i *jobapi.Item) error {
		if i == nil {
			got = append(got, "reset")
			return nil
		}
		got = append(got, i.ID+" "+i.Status.String())
		if i.Status == jobs.Failed {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || !slices.Equal(got, []string{"reset", "a queued", "b running", "b failed"}) || !slices.Equal(asked, []string{"kind=pdf&scope=fleet&status=running ", "kind=pdf&scope=fleet&status=running e-3"}) {
		t.Errorf("got %q, asked %q, %v", got, asked, err)
	}
}
