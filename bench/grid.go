package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A gridPart measures one thing of the grid.
type gridPart struct {
	name string
	run  func(context.Context, *report) error
}

var gridParts = []gridPart{
	{"null", gridNull},
	{"latency", gridLatency},
	{"queued", gridQueued},
	{"restart", gridRestart},
	{"capped", gridCapped},
	{"idle", gridIdle},
	{"programs", gridProgramRuns},
}

// gridSection measures the grid: leader, worker and client are processes of their own, but for the client, which is this one.
//
//	BENCH_PARTS=part,...  these parts only
func gridSection(ctx context.Context, r *report) error {
	names := strings.FieldsFunc(os.Getenv("BENCH_PARTS"), func(r rune) bool { return r == ',' })
	wanted, err := choose(gridParts, names, func(p gridPart) string { return p.name })
	if err != nil {
		return err
	}
	for _, part := range wanted {
		if err := part.run(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// gridSlots is how many jobs are under way at once where nothing else is said.
const gridSlots = 64

// gridRig is a leader and a worker whose jobs do nothing.
type gridRig struct {
	leader, worker *process
}

// startGrid starts both. Without a directory the leader keeps nothing.
func startGrid(ctx context.Context, dir, sync string, slots int, features string) (*gridRig, error) {
	leader, err := startLeader(ctx, dir, sync)
	if err != nil {
		return nil, err
	}
	worker, err := startNullWorker(ctx, leader.address(), slots, 0, features)
	if err != nil {
		leader.kill()
		return nil, err
	}
	return &gridRig{leader, worker}, nil
}

func (g *gridRig) stop() {
	g.worker.kill()
	g.leader.kill()
}

func (g *gridRig) processes() []*process { return []*process{g.leader, g.worker} }

// startLeader starts a leader. The second line that it says is where it can be asked for profiles.
func startLeader(ctx context.Context, dir, sync string) (*process, error) {
	return spawn(ownCommand(ctx, "serve-grid", dir, sync), 2)
}

// startNullWorker starts a worker whose jobs do nothing. It takes jobs without end if most is 0. Its features are none, or "all".
func startNullWorker(ctx context.Context, leader string, slots, most int, features string) (*process, error) {
	return spawn(ownCommand(ctx, "work-grid-null", leader, strconv.Itoa(slots), strconv.Itoa(most), features), 1)
}
