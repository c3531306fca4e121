package dashboard

import (
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// system is what the page of the server itself shows.
type system struct {
	Reports []report
	Scopes  []scope
	Who     who
	Tokens  []token
	Audit   []change
	Admin   bool
}

// report is what the door of a scope has to tell.
type report struct {
	Scope    string
	Sections []jobapi.Section
	Wrong    string
}

type token struct {
	Name    string      `json:"name"`
	Scope   string      `json:"scope"`
	Expires jobapi.Time `json:"expiresAt"`
}

// change is something that was asked for.
type change struct {
	At        jobapi.Time `json:"at"`
	Token     string      `json:"token"`
	Scope     string      `json:"scope"`
	Operation string      `json:"operation"`
	Job       string      `json:"job"`
	Status    int         `json:"status"`
	RequestID string      `json:"requestId"`
}

// maxChanges is how many changes a page shows.
const maxChanges = 200

func showSystem(v *visit) (*page, error) {
	s := &system{Who: v.Who, Scopes: v.Scopes, Admin: v.isAdmin()}
	for i := range v.Scopes {
		if !v.Scopes[i].can("report") {
			continue
		}
		r := report{Scope: v.Scopes[i].Name}
		var answer struct{ Sections []jobapi.Section }
		switch err := v.get(pathOf(r.Scope, "report"), nil, &answer); {
		case unavailable(err):
			r.Wrong, _ = refusedField(err)
		case err != nil && !missing(err):
			return nil, err
		}
		r.Sections = answer.Sections
		s.Reports = append(s.Reports, r)
	}
	if s.Admin {
		var tokens struct{ Items []token }
		var audit struct{ Items []change }
		if err := v.get("tokens", nil, &tokens); err != nil && !missing(err) {
			return nil, err
		}
		if err := v.get("audit", nil, &audit); err != nil && !missing(err) {
			return nil, err
		}
		s.Tokens = tokens.Items
		slices.SortFunc(s.Tokens, func(a, b token) int { return strings.Compare(a.Name, b.Name) })
		s.Audit = audit.Items[:min(len(audit.Items), maxChanges)]
	}
	return &page{Template: "system.html", Title: "System", Nav: "system", Data: s}, nil
}

// isAdmin reports whether the visitor's token reaches the fleet as a whole, also on a read-only server.
func (v *visit) isAdmin() bool {
	has, err := access.ParseScope(v.Who.Scope)
	return err == nil && has >= access.Admin
}
