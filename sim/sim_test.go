package sim_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9/logging"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/sim"
)

func TestMain(m *testing.M) {
	logging.Disable()       // the client writes to stderr what its callers get as errors
	testrun.CollectSeldom() // each script that runs in Redis makes a Lua state
	m.Run()
}

// number returns an environment variable, or what to take where it is not set.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// seeds returns the seeds to run: those from 1 on and those that have found something before,
// or one that is to be looked at.
func seeds(t *testing.T, found []uint64) (list []uint64) {
	t.Helper()
	if seed := number(t, "SIMSEED", 0); seed > 0 {
		return []uint64{seed}
	}
	most := uint64(50)
	if testing.Short() || testrun.Race {
		most = 5
	}
	for seed := range number(t, "SIMSEEDS", most) {
		list = append(list, seed+1)
	}
	for _, seed := range found {
		if !slices.Contains(list, seed) {
			list = append(list, seed)
		}
	}
	return list
}

// runner is a simulation.
type runner func(seed uint64, dir string, log io.Writer, bug sim.Bug) sim.Report

// run runs a seed in a bubble of its own.
func (f runner) run(t *testing.T, seed uint64, bug sim.Bug) (r sim.Report) {
	t.Helper()
	var log io.Writer
	if os.Getenv("SIMLOG") != "" {
		log = os.Stderr
	}
	dir := testrun.MemoryDir(t)
	synctest.Test(t, func(*testing.T) { r = f(seed, dir, log, bug) })
	return r
}

// keepsItsPromises runs all seeds.
func (f runner) keepsItsPromises(t *testing.T, found ...uint64) {
	for _, seed := range seeds(t, found) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := f.run(t, seed, sim.Bug{})
			for _, broken := range r.Broken {
				t.Errorf("seed %d: %s", seed, broken)
			}
			if t.Failed() || os.Getenv("SIMSEED") != "" {
				r.Print(t.Output())
			}
		})
	}
}

// Seed 9812 lost how a job ended, but not that its worker entered it as ended: it stayed running.
func TestK10K13FleetKeepsItsPromises(t *testing.T) { runner(sim.Fleet).keepsItsPromises(t, 9812) }

// A simulation that finds nothing proves nothing: with each of these bugs some of the same
// seeds must fail.
func TestPlantedBugsAreFound(t *testing.T) {
	testrun.Long(t, "it searches through many seeds")
	testrun.Once(t, "it proves that the ledgers see what is wrong")
	tests := []struct {
		bug sim.Bug
		in  runner
	}{
		{sim.AckBeforeRecord, sim.Fleet},
		{sim.NoFence, sim.Fleet},
		{sim.UncountedCrash, sim.Fleet},
		{sim.FailureTwice, sim.Fleet},
		{sim.NoWait, sim.Fleet},
		{sim.LostNack, sim.Fleet},
		{sim.LateResult, sim.Fleet},
		{sim.LostResult, sim.Gateway},
		{sim.NoReplica, sim.Gateway},
	}
	for _, tt := range tests {
		t.Run(tt.bug.Name, func(t *testing.T) {
			t.Parallel()
			tt.in.finds(t, tt.bug)
		})
	}
}

// finds runs seeds until one finds the bug; they must all pass without it. A replay is not
// exact, so each seed has three tries.
func (f runner) finds(t *testing.T, bug sim.Bug) {
	t.Helper()
	for n := range uint64(150) {
		seed := n%50 + 1
		with := f.run(t, seed, bug)
		if len(with.Broken) == 0 {
			continue
		}
		t.Logf("seed %d: %s", seed, with.Broken[0])
		if without := f.run(t, seed, sim.Bug{}); len(without.Broken) > 0 {
			t.Errorf("seed %d without the bug: %q", seed, without.Broken)
		}
		return
	}
	t.Error("no seed has found it")
}

func TestGatewayKeepsItsPromises(t *testing.T) { runner(sim.Gateway).keepsItsPromises(t) }
