package jobapi

import (
	"context"
	"net/http"
)

// Worker is a worker of the fleet, as it reports itself every 5 s.
type Worker struct {
	ID      string   `json:"workerId"` // of the process
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Version string   `json:"version"`
	Kinds   []string `json:"kinds"` // never nil
	Slots   int      `json:"slots"`
	Jobs    int      `json:"jobs"`  // in hand
	State   string   `json:"state"` // working, idle, draining, unready or silent
	// Reason is why it takes no jobs, if it is unready.
	Reason  string `json:"reason,omitempty"`
	Started Time   `json:"startedAt"`
	Seen    Time   `json:"seenAt"` // silent since, if it is silent
}

func (s *Server) workers(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	all, err := s.Workers(ctx)
	if err != nil {
		return err
	}
	if all == nil {
		all = []Worker{}
	}
	return answer(w, http.StatusOK, struct {
		Items []Worker `json:"items"`
	}{all})
}
