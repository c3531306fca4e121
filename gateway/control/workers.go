package control

import (
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
)

// The life of an enroll token: as a rule, and at most.
const (
	enrollTTL    = 3600
	maxEnrollTTL = 30 * 24 * 3600
)

func (c *Control) enroll(w http.ResponseWriter, r *http.Request) error {
	var req wire.EnrollRequest
	if err := httpd.ReadJSON(w, r, wire.MaxSmallBody, &req, httpd.BodyOptions{AllowEmpty: true}); err != nil {
		return err
	}
	ttl := int64(enrollTTL)
	if req.TTLSeconds != nil {
		ttl = *req.TTLSeconds
	}
	if ttl < 1 || ttl > maxEnrollTTL {
		return invalid("ttl_seconds", "want 1 to %d", maxEnrollTTL)
	}
	if err := name("label", req.Label); err != nil {
		return err
	}
	token, expires, err := c.Queue.Enroll(r.Context(), req.Label, time.Duration(ttl)*time.Second)
	if err != nil {
		return err
	}
	c.Log.InfoContext(r.Context(), "enroll token made", "label", req.Label, "ttl_seconds", ttl, "remote", r.RemoteAddr)
	return write(w, wire.EnrollResponse{Token: token, ExpiresAt: timestamp(expires), TTLSeconds: ttl, Label: req.Label})
}

// register gives a worker its token. A caller with an Authorization is a worker
// that wants a new one, and is treated as on the other routes of workers.
func (c *Control) register(w http.ResponseWriter, r *http.Request) error {
	var (
		req   wire.RegisterRequest
		own   string
		owner = len(r.Header.Values("Authorization")) > 0
		err   error
	)
	if owner {
		if own, err = httpd.Bearer(r); err != nil {
			return err
		}
	}
	err = httpd.ReadJSON(w, r, wire.MaxRegisterBody, &req, httpd.BodyOptions{AllowEmpty: true, IgnoreUnknown: true})
	if err == nil {
		err = checkRegister(&req, owner)
	}
	if err != nil {
		if owner {
			if _, denied := c.Queue.Authorize(r.Context(), queue.Caller{TokenHash: queue.HashToken(own)}); denied != nil {
				return denied
			}
		}
		return err
	}
	reg, err := c.Queue.Register(r.Context(), queue.Registration{
		EnrollToken: req.Token, Token: own, Name: req.Name, Queue: req.QueueName, Meta: string(req.Meta),
	})
	if err != nil {
		return err
	}
	did := "worker registered"
	if owner {
		did = "worker token rotated"
	}
	c.Log.InfoContext(r.Context(), did, "worker", reg.Worker, "name", reg.Name, "remote", r.RemoteAddr, "expires", timestamp(reg.Expires))
	return write(w, wire.RegisterResponse{
		ServerID: reg.Worker, WorkerID: reg.Worker, RegisteredAt: timestamp(reg.At), Name: reg.Name, WorkerToken: reg.Token,
		TokenExpiresAt: timestamp(reg.Expires), TokenTTLSeconds: int64(c.Queue.TokenTTL.Seconds()),
	})
}

func checkRegister(req *wire.RegisterRequest, owner bool) error {
	if req.Token == "" && !owner {
		return missing("token")
	}
	if len(req.Token) > 512 {
		return invalid("token", "it is too long for one")
	}
	if err := name("name", req.Name); err != nil {
		return err
	}
	if err := name("queue_name", req.QueueName); err != nil {
		return err
	}
	switch m := string(req.Meta); {
	case m == "" || m == "null":
		req.Meta = []byte("{}")
	case m[0] != '{':
		return invalid("meta", "want an object")
	case len(m) > wire.MaxMeta:
		return invalid("meta", "%d bytes long, at most %d are allowed", len(m), wire.MaxMeta)
	}
	return nil
}

func (c *Control) servers(w http.ResponseWriter, r *http.Request) error {
	offset, limit, err := page(r)
	if err != nil {
		return err
	}
	list, total, err := c.Queue.Servers(r.Context(), offset, limit)
	if err != nil {
		return err
	}
	a := wire.ServersResponse{Total: total, Servers: []wire.ServerInfo{}}
	for _, s := range list {
		a.Servers = append(a.Servers, wire.ServerInfo{
			ServerID: s.Worker, Name: s.Name, RegisteredAt: s.RegisteredAt, Tokens: s.Tokens, Leases: s.Leases,
		})
	}
	return write(w, a)
}

func (c *Control) revoke(w http.ResponseWriter, r *http.Request) error {
	worker := r.PathValue("worker")
	if !isWord(worker) {
		return queue.ErrNoWorker
	}
	ended, err := c.Queue.Revoke(r.Context(), worker)
	if err != nil {
		return err
	}
	c.Log.InfoContext(r.Context(), "worker revoked", "worker", worker, "tokens", ended.Tokens, "leases", ended.Leases, "remote", r.RemoteAddr)
	select {
	case c.reapNow <- struct{}{}: // its jobs need not wait for the reaper's next round
	default:
	}
	return write(w, wire.RevokeResponse{RevokedCount: ended.Tokens})
}
