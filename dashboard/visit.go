package dashboard

import (
	"net/http"
	"slices"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// visit is a request for a page.
type visit struct {
	*caller
	w http.ResponseWriter
	r *http.Request

	Who    who
	Scopes []scope
}

// who is the visitor, as GET /api/v1/whoami answers.
type who struct {
	Name     string      `json:"name"`
	Scope    string      `json:"scope"`
	ReadOnly bool        `json:"readOnly"`
	Expires  jobapi.Time `json:"expiresAt"`
}

// scope is a scope of jobs, as GET /api/v1/scopes answers.
type scope struct {
	Name       string   `json:"name"`
	Abilities  []string `json:"abilities"`
	Operations []string `json:"operations"`
}

// can reports whether the scope has an ability.
func (s *scope) can(ability string) bool { return s != nil && slices.Contains(s.Abilities, ability) }

// open asks who the visitor is, and what there is.
func (v *visit) open() error {
	if err := v.get("whoami", nil, &v.Who); err != nil {
		return err
	}
	if v.limited {
		v.Who.ReadOnly = true
	}
	var all struct{ Items []scope }
	if err := v.get("scopes", nil, &all); err != nil {
		return err
	}
	v.Scopes = all.Items
	return nil
}

// scope returns a scope by its name, or nil.
func (v *visit) scope(name string) *scope {
	for i := range v.Scopes {
		if v.Scopes[i].Name == name {
			return &v.Scopes[i]
		}
	}
	return nil
}

// may reports whether the visitor may do what needs that scope of a token.
func (v *visit) may(need access.Scope) bool {
	has, err := access.ParseScope(v.Who.Scope)
	return err == nil && has >= need && !v.Who.ReadOnly
}

// mayChange reports whether the visitor may cancel and submit jobs of a scope.
func (v *visit) mayChange(scopeName string) bool {
	if scopeName == "system" {
		return v.may(access.Admin)
	}
	return v.may(access.Operate)
}

// runs reports whether the server has an operation of scope utils that the visitor may start.
func (v *visit) runs(operation string) bool {
	utils := v.scope("utils")
	return utils != nil && slices.Contains(utils.Operations, operation) && v.may(access.Operate)
}

// mainScope is the scope that is shown when none was chosen: the first that people give jobs to.
func (v *visit) mainScope() string {
	for _, s := range v.Scopes {
		if s.Name != "system" && s.Name != "utils" {
			return s.Name
		}
	}
	if len(v.Scopes) > 0 {
		return v.Scopes[0].Name
	}
	return "fleet"
}
