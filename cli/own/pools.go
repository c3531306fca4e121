package own

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/worker"
)

// maxGPU is the largest index of a GPU.
const maxGPU = 1023

// Check returns what is wrong with the settings.
func (e *GPUEnv) Check() []error {
	_, err := e.indices()
	return []error{err}
}

// indices returns the GPUs of the worker.
func (e *GPUEnv) indices() (gpus []int, err error) {
	for field := range strings.SplitSeq(e.GPUs, ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		gpu, err := strconv.Atoi(field)
		if err != nil || gpu < 0 || gpu > maxGPU || slices.Contains(gpus, gpu) {
			return nil, fmt.Errorf("WORKER_GPUS is %.80q: want different indices from 0 to %d, such as 0,1", e.GPUs, maxGPU)
		}
		gpus = append(gpus, gpu)
	}
	return gpus, nil
}

// Runnable returns the kinds that a worker can run: those with GPUs only if it has any. Workers with and
// without GPUs may share a kinds file; the latter leave those jobs to the former.
func (e *GPUEnv) Runnable(all []Kind, log *slog.Logger) []Kind {
	if strings.TrimSpace(e.GPUs) != "" {
		return all
	}
	return slices.DeleteFunc(all, func(k Kind) bool {
		if k.GPUs > 0 {
			log.Warn("a kind needs GPUs and none are named (WORKER_GPUS, of a relay --gpus): its jobs do not run here", "kind", k.Name)
		}
		return k.GPUs > 0
	})
}

// Fitting returns those kinds of next that a worker can run now. The worker was started with the kinds of
// start, runs those of now, and its pools stay as they are. So a kind with other slots or GPUs than at the start
// stays as it is now, and a new one with slots or GPUs of its own is left to others.
func Fitting(start, now, next []Kind, log *slog.Logger) (fit []Kind) {
	find := func(all []Kind, k Kind) Kind {
		if i := slices.IndexFunc(all, func(other Kind) bool { return other.Name == k.Name }); i >= 0 {
			return all[i]
		}
		return Kind{Kind: &kinds.Kind{}}
	}
	for _, k := range next {
		pool, before := find(start, k), find(now, k)
		switch {
		case k.Slots == pool.Slots && k.GPUs == pool.GPUs:
			fit = append(fit, k)
		case before.Name == "":
			log.Warn("a kind has slots or gpus of its own: its jobs are left to other workers until this one is started again", "kind", k.Name, "slots", k.Slots, "gpus", k.GPUs)
		default:
			log.Warn("slots or gpus of a kind have changed: it stays as it was until this worker is started again", "kind", k.Name, "slots", pool.Slots, "gpus", pool.GPUs)
			fit = append(fit, before)
		}
	}
	return fit
}

// Pools returns the pools of a worker with that many slots. A kind with slots of its own has a pool of
// its own, and so has one with GPUs; all others share the worker's slots. Of kinds with as many GPUs a job,
// those that do not say how many slots they have share what GPUs are left.
func (e *GPUEnv) Pools(all []Kind, slots int) ([]worker.Pool, error) {
	gpus, err := e.indices()
	if err != nil {
		return nil, err
	}
	pools := []worker.Pool{{Slots: slots}}
	var wrong []error
	have := len(gpus)
	var holders []string // kinds with GPUs of their own
	take := func(k Kind, n int) []int {
		if n > len(gpus) {
			wrong = append(wrong, tooFew(k, n, have, have-len(gpus), holders))
			return nil
		}
		if n > 0 {
			holders = append(holders, string(k.Name))
		}
		taken := gpus[:n:n]
		gpus = gpus[n:]
		return taken
	}
	var sharing []Kind // the GPUs that are left
	for _, k := range all {
		switch {
		case k.GPUs > 0 && k.Slots == 0:
			sharing = append(sharing, k)
		case k.Slots > 0:
			pools = append(pools, worker.Pool{Name: string(k.Name), Kinds: []jobs.Kind{k.Name}, Slots: k.Slots, GPUs: take(k, k.Slots*k.GPUs)})
		}
	}
	if len(sharing) > 0 {
		most := slices.MaxFunc(sharing, func(a, b Kind) int { return cmp.Compare(a.GPUs, b.GPUs) })
		p := worker.Pool{Name: "gpu"}
		for _, k := range sharing {
			if k.GPUs != most.GPUs {
				wrong = append(wrong, fmt.Errorf("kinds %s and %s need %d and %d GPUs a job: say with slots how many jobs of each run at once", k.Name, most.Name, k.GPUs, most.GPUs))
			}
			p.Kinds = append(p.Kinds, k.Name)
		}
		p.Slots = len(gpus) / most.GPUs
		p.GPUs = take(most, max(1, p.Slots)*most.GPUs)
		pools = append(pools, p)
	}
	return pools, errors.Join(wrong...)
}

// tooFew says that there are no n GPUs for a kind: WORKER_GPUS names have, and other kinds hold taken of them.
func tooFew(k Kind, n, have, taken int, holders []string) error {
	needs := jobs.Count(n, "GPU")
	if k.Slots > 1 {
		needs += fmt.Sprintf(", %d for each of its %d slots", k.GPUs, k.Slots)
	}
	there := fmt.Sprintf("WORKER_GPUS names %d", have)
	if taken > 0 {
		there += fmt.Sprintf(", and other kinds have %d (%s)", taken, strings.Join(holders, ", "))
	}
	return fmt.Errorf("kind %s needs %s, but %s: name more, or change slots and gpus in the kinds file", k.Name, needs, there)
}
