package dashboard

import (
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// kind is a kind of jobs, with its numbers.
type kind struct {
	jobapi.Kind
	Numbers jobapi.KindOverview
	Scope   string
	Pause   bool // the visitor may
	Submit  bool // the visitor may, and the server takes jobs of it
}

// kinds returns the kinds of a scope, none if it does not tell them.
func (v *visit) kinds(scopeName string) (all []kind, err error) {
	if !v.scope(scopeName).can("kinds") {
		return nil, nil
	}
	var answer struct{ Items []jobapi.Kind }
	if err := v.get(pathOf(scopeName, "kinds"), nil, &answer); err != nil && !missing(err) {
		return nil, err
	}
	for _, k := range answer.Items {
		if string(k.Params) == "null" {
			k.Params = nil
		}
		all = append(all, kind{Kind: k, Scope: scopeName, Submit: true})
	}
	return all, nil
}

// kindGroup are the kinds of a scope.
type kindGroup struct {
	Scope string
	Rows  []kind
	In    string // per second, over 5 minutes
	Out   string
	Wrong string
}

func showKinds(v *visit) (*page, error) {
	var overview jobapi.Overview
	if err := v.get("overview", nil, &overview); err != nil && !missing(err) {
		return nil, err
	}
	var groups []kindGroup
	for i := range v.Scopes {
		s := &v.Scopes[i]
		if s.Name == "system" || s.Name == "utils" {
			continue
		}
		g := kindGroup{Scope: s.Name}
		all, err := v.kinds(s.Name)
		switch {
		case unavailable(err):
			g.Wrong, _ = refusedField(err)
		case err != nil:
			return nil, err
		}
		g.Rows = all
		if err := g.count(v, s, &overview); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return &page{Template: "kinds.html", Title: "Kinds", Nav: "kinds", Data: groups}, nil
}

// count adds the numbers of the overview, and which kinds are paused.
func (g *kindGroup) count(v *visit, s *scope, overview *jobapi.Overview) error {
	at := func(name string) *kind {
		i := slices.IndexFunc(g.Rows, func(k kind) bool { return k.Name == name })
		if i < 0 {
			i = len(g.Rows)
			g.Rows = append(g.Rows, kind{Kind: jobapi.Kind{Name: name}, Scope: g.Scope})
		}
		return &g.Rows[i]
	}
	for _, o := range overview.Scopes {
		if o.Name != g.Scope {
			continue
		}
		c := newChart("", 10e9, o.Recent)
		g.In, g.Out = c.In, c.Out
		for _, numbers := range o.Kinds {
			k := at(numbers.Kind)
			k.Numbers = numbers
			k.Workers, k.Slots = max(k.Workers, numbers.Workers), max(k.Slots, numbers.Slots)
		}
	}
	if s.can("pause") {
		var paused struct{ Items []jobapi.Paused }
		if err := v.get(pathOf(g.Scope, "paused"), nil, &paused); err != nil && !missing(err) && !unavailable(err) {
			return err
		}
		for _, p := range paused.Items {
			at(p.Kind).Numbers.Paused = p.Since
		}
	}
	slices.SortFunc(g.Rows, func(a, b kind) int { return strings.Compare(a.Name, b.Name) })
	g.Rows = g.Rows[:min(len(g.Rows), maxShown)]
	may := v.may(access.Operate)
	for i := range g.Rows {
		g.Rows[i].Pause, g.Rows[i].Submit = s.can("pause") && may, g.Rows[i].Submit && s.can("submit") && may
	}
	return nil
}
