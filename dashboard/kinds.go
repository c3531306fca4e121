package dashboard

import (
	"encoding/json"

	"github.com/batchfleet/batchfleet/jobapi"
)

// kind is a kind of jobs with its numbers, as GET /api/v1/{scope}/kinds answers: a [jobapi.Kind] and a [jobapi.KindOverview] in one object.
type kind struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Params      json.RawMessage   `json:"params"`
	Input       string            `json:"input"`
	Workers     int               `json:"workers"`
	Slots       int               `json:"slots"`
	Cap         int               `json:"cap"`
	Queued      int               `json:"queued"`
	Running     int               `json:"running"`
	Oldest      jobapi.Time       `json:"oldestQueuedAt"`
	Paused      jobapi.Time       `json:"pausedSince"`
	Wait        *jobapi.Quantiles `json:"wait"`
	Run         *jobapi.Quantiles `json:"run"`
}

// kinds returns the kinds of a scope, none if it does not tell them.
func (v *visit) kinds(scopeName string) ([]kind, error) {
	if !v.scope(scopeName).can("kinds") {
		return nil, nil
	}
	var all struct{ Items []kind }
	if err := v.get(pathOf(scopeName, "kinds"), nil, &all); err != nil && !missing(err) {
		return nil, err
	}
	return all.Items, nil
}
