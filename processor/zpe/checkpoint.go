package zpe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// maxObject bounds, in bytes, what is read back of an object. The largest that is
// written, the result of 200 atoms, has less than 100 KB.
const maxObject = 4 << 20

func resultName(id jobs.ID) string     { return "results/" + string(id) + "/result.json" }
func runsDir(id jobs.ID) string        { return "results/" + string(id) + "/zpe/" }
func runName(id jobs.ID, n int) string { return fmt.Sprintf("%s%04d.json", runsDir(id), n) }

// checkpoint is what is kept of a run of pw.x.
type checkpoint struct {
	// Digest is that of all that the run depends on. One with another digest, of
	// a changed payload, program or pseudopotential, is replaced.
	Digest    string       `json:"digest"`
	Energy    float64      `json:"energy_ry"`
	Forces    [][3]float64 `json:"forces_ry_per_bohr"` // on all atoms
	Positions [][3]float64 `json:"positions_angstrom"` // of all atoms; after it, in the case of a relaxation
	Seconds   float64      `json:"seconds"`            // wall time
}

// digest identifies what a run with the given input yields.
func digest(input, version string, pseudos []pseudo) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "1\n%s\n", version) // the 1 counts changes of the checkpoint's meaning
	for _, p := range pseudos {
		fmt.Fprintf(sum, "%s %s\n", p.name, p.md5)
	}
	_, _ = io.WriteString(sum, input) // a hash never fails
	return hex.EncodeToString(sum.Sum(nil))
}

// earlierRun returns the checkpoint of run n if it has the digest.
func (h *Handler) earlierRun(ctx context.Context, id jobs.ID, n int, digest string, atoms int) (checkpoint, bool, error) {
	var c checkpoint
	found, err := h.getJSON(ctx, runName(id, n), &c)
	if err != nil {
		return checkpoint{}, false, fmt.Errorf("resume at checkpoint: %w", err)
	}
	ok := found && c.Digest == digest && len(c.Forces) == atoms && len(c.Positions) == atoms && c.Seconds >= 0
	return c, ok, nil
}

// Forget deletes all that was stored for a job: its checkpoints, then its result.
// Call it once the result was delivered, or the job was recorded as ended without one;
// it may be called again if it fails.
func (h *Handler) Forget(ctx context.Context, id jobs.ID) error {
	err := h.Store.Walk(ctx, runsDir(id), func(name string, _ storage.Info, err error) error {
		if err != nil {
			return err
		}
		return h.Store.Delete(ctx, name)
	})
	if err == nil {
		err = h.Store.Delete(ctx, resultName(id))
	}
	if err != nil {
		return fmt.Errorf("forget job %s: %w", id, err)
	}
	return nil
}

// getJSON reads an object into v. It reports false if there is none, or none that
// can be read: then it was not written by this package.
func (h *Handler) getJSON(ctx context.Context, name string, v any) (bool, error) {
	f, err := h.Store.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxObject))
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		h.Log.WarnContext(ctx, "object is unreadable and will be replaced", "object", name, "err", err)
		return false, nil
	}
	return true, nil
}

func (h *Handler) putJSON(ctx context.Context, name string, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // an input of pw.x is full of &
	if err := enc.Encode(v); err != nil {
		return err
	}
	return h.Store.Put(ctx, name, &text)
}
