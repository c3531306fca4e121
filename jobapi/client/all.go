package client

import (
	"context"
	"encoding/json"
	"net/url"

	httpclient "github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobapi"
)

// FollowAll passes each change of a job to seen: of all jobs, or of those that q asks for and those that leave its status.
// item is nil when changes may have been missed, as at the beginning: what was listed before is then to be read again. It
// goes on until ctx ends; a stream that breaks off is continued where it was. An error of seen ends it, and is returned.
func (c *Client) FollowAll(ctx context.Context, q jobapi.EventQuery, seen func(item *jobapi.Item) error) error {
	query := url.Values{}
	for name, value := range map[string]string{"scope": q.Scope, "kind": q.Kind} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Status != 0 {
		query.Set("status", q.Status.String())
	}
	f := &following{client: c, name: "all jobs", path: []string{"events"}, query: query}
	f.take = func(e sse) error {
		switch e.name {
		case "reset":
			return seen(nil)
		case "job":
			var i jobapi.Item
			if err := json.Unmarshal([]byte(e.data), &i); err != nil || i.ID == "" {
				return errBadResponse("an event that is no job, beginning " + httpclient.Quote([]byte(e.data)))
			}
			return seen(&i)
		}
		return nil // a newer server's
	}
	return f.follow(ctx)
}
