package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// items asks for a list that has no pages. what names it in errors.
func items[T any](ctx context.Context, c *Client, what string, path ...string) ([]T, error) {
	var a struct {
		Items []T `json:"items"`
	}
	if err := c.json(ctx, &request{path: path}, &a); err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return a.Items, nil
}

// ServedScopes returns the scopes of the server, and what each can do.
func (c *Client) ServedScopes(ctx context.Context) ([]jobapi.ScopeInfo, error) {
	return items[jobapi.ScopeInfo](ctx, c, "scopes", "scopes")
}

// WhoAmI returns whose token this client has, and how far it reaches.
func (c *Client) WhoAmI(ctx context.Context) (who jobapi.Caller, err error) {
	if err := c.json(ctx, &request{path: []string{"whoami"}}, &who); err != nil {
		return who, fmt.Errorf("ask who asks: %w", err)
	}
	return who, nil
}

// Tokens returns the tokens of the server's file, without what they are.
func (c *Client) Tokens(ctx context.Context) ([]jobapi.TokenInfo, error) {
	return items[jobapi.TokenInfo](ctx, c, "tokens", "tokens")
}

// Audit returns the newest changes that were asked for through the server, the newest first.
func (c *Client) Audit(ctx context.Context) ([]jobapi.Change, error) {
	return items[jobapi.Change](ctx, c, "changes", "audit")
}

// Report returns what the door of a scope has to tell beside jobs, as tables.
func (c *Client) Report(ctx context.Context, scope string) ([]jobapi.Section, error) {
	var a struct {
		Sections []jobapi.Section `json:"sections"`
	}
	if err := c.json(ctx, &request{path: []string{scope, "report"}}, &a); err != nil {
		return nil, fmt.Errorf("get report of %s: %w", scope, err)
	}
	return a.Sections, nil
}

// StoreInput uploads content of size bytes, -1 if that is not known, as an input for jobs of a scope. name is that of a
// file, for people. It is not retried: the content is gone.
func (c *Client) StoreInput(ctx context.Context, scope, name string, content io.Reader, size int64) (stored jobapi.Stored, err error) {
	err = c.send(ctx, &request{method: http.MethodPost, path: []string{scope, "inputs"}, query: url.Values{"name": {name}}, status: http.StatusCreated}, content, size, &stored)
	if err == nil && stored.Input == "" {
		err = errBadResponse("it names no input")
	}
	if err != nil {
		return jobapi.Stored{}, fmt.Errorf("upload %.40q: %w", name, err)
	}
	return stored, nil
}

// Jobs returns the whole jobs of a page of [Client.ListMatching], and its cursor for the next.
func (c *Client) Jobs(ctx context.Context, scope string, q jobapi.Query, f jobapi.Filter) (whole []jobapi.Job, next string, err error) {
	var a struct {
		Items []jobapi.Job `json:"items"`
		Next  string       `json:"nextCursor"`
	}
	query := matching(q, f)
	query.Set("full", "true")
	if err := c.json(ctx, &request{path: []string{scope, "jobs"}, query: query, wait: 10 * time.Second}, &a); err != nil {
		return nil, "", fmt.Errorf("list jobs of %s: %w", scope, err)
	}
	return a.Items, a.Next, nil
}
