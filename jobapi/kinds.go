package jobapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
)

// Catalog is a Jobs that knows which kinds of jobs it takes.
type Catalog interface {
	// Kinds returns the kinds, by name: of this server's kinds file, built in, and those that live workers run.
	Kinds(ctx context.Context) ([]Kind, error)
}

// Kind is a kind of jobs on the wire.
type Kind struct {
	Name        string          `json:"name"` // without the scope
	Description string          `json:"description,omitempty"`
	Params      json.RawMessage `json:"params"` // a JSON Schema of an object; null where they are not known
	// Input is which inputs a job has: none, optional, one (required) or many (one or more); empty where that is not known.
	Input string `json:"input"`
	// Workers and Slots are those of live workers which run the kind. Slots may be shared between kinds.
	Workers int `json:"workers"`
	Slots   int `json:"slots"`
	// Cap is how many of its jobs a worker runs at once, if the kind says that.
	Cap int `json:"cap,omitempty"`
}

// KindInfo is a kind with its numbers, as GET /api/v1/{scope}/kinds answers.
type KindInfo struct {
	Kind
	Queued  int        `json:"queued"`
	Running int        `json:"running"`
	Oldest  Time       `json:"oldestQueuedAt"`
	Paused  Time       `json:"pausedSince"`
	Wait    *Quantiles `json:"wait"`
	Run     *Quantiles `json:"run"`
}

// kinds answers with the kinds that the scope knows, and those that have jobs or are paused. catalog may be nil.
func (c *scope) kinds(catalog Catalog) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		return c.server.shared.answer(w, r, func(ctx context.Context) (any, error) {
			var known []Kind
			var err error
			if catalog != nil {
				if known, err = catalog.Kinds(ctx); err != nil {
					return nil, err
				}
			}
			numbers, err := c.numbers(ctx)
			if err != nil {
				return nil, err
			}
			return items(withNumbers(known, numbers)), nil
		})
	}
}

// numbers returns the numbers of the kinds of the scope.
func (c *scope) numbers(ctx context.Context) ([]KindOverview, error) {
	if c.server.Watch == nil {
		return nil, nil
	}
	all, err := c.server.Watch.Overview(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all.Scopes {
		switch {
		case s.Name != c.Name:
		case s.Unavailable != "":
			return nil, errUnavailable
		default:
			return s.Kinds, nil
		}
	}
	return nil, nil
}

func withNumbers(known []Kind, numbers []KindOverview) []KindInfo {
	all := make([]KindInfo, 0, max(len(known), len(numbers)))
	at := map[string]int{}
	for _, k := range known {
		at[k.Name] = len(all)
		k.Input = cmp.Or(k.Input, "optional")
		all = append(all, KindInfo{Kind: k})
	}
	for _, n := range numbers {
		i, ok := at[n.Kind]
		if !ok {
			i = len(all)
			all = append(all, KindInfo{Kind: Kind{Name: n.Kind, Input: "optional", Workers: n.Workers, Slots: n.Slots}})
		}
		k := &all[i]
		k.Queued, k.Running, k.Oldest, k.Paused, k.Wait, k.Run = n.Queued, n.Running, n.Oldest, n.Paused, n.Wait, n.Run
	}
	slices.SortStableFunc(all, func(a, b KindInfo) int { return strings.Compare(a.Name, b.Name) })
	return all
}
