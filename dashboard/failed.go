package dashboard

import (
	"slices"

	"github.com/batchfleet/batchfleet/jobapi"
)

// failed is what the page of failed jobs shows.
type failed struct {
	Known   bool // the server has an overview
	Errors  []errorRow
	Scopes  []failedScope
	Redrive bool // the visitor may
	Purge   bool
}

// errorRow is a group of errors, with what can be done about it.
type errorRow struct {
	jobapi.ErrorGroup
	Retry string // a URL; empty if the visitor may not
}

type failedScope struct {
	Name   string
	Failed int
	Dead   *int
	Retry  string
}

func showFailed(v *visit) (*page, error) {
	var overview jobapi.Overview
	f := &failed{Known: true, Redrive: v.runs("redrive"), Purge: v.runs("purge")}
	switch err := v.get("overview", nil, &overview); {
	case missing(err):
		f.Known = false
	case err != nil:
		return nil, err
	}
	retry := func(in filter) string {
		if !v.runs("retry") || !v.scope(in.Scope).can("retry") {
			return ""
		}
		return bulkURL("retry", &in)
	}
	for _, e := range overview.Errors {
		f.Errors = append(f.Errors, errorRow{e, retry(filter{Scope: e.Scope, Error: e.Fingerprint, State: "failed"})})
	}
	for _, s := range overview.Scopes {
		if s.States["failed"] > 0 || s.DeadLetters != nil {
			f.Scopes = append(f.Scopes, failedScope{s.Name, s.States["failed"], s.DeadLetters, retry(filter{Scope: s.Name, State: "failed"})})
		}
	}
	slices.SortStableFunc(f.Errors, func(a, b errorRow) int { return b.Count - a.Count })
	return &page{Template: "failed.html", Title: "Failed", Nav: "failed", Data: f}, nil
}
