package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker"
)

// pacedSeconds is for how long a program writes its lines.
const pacedSeconds = 10

// pacedLogs runs programs that write logRate lines a second in eight slots, with their statuses and logs in a real Redis.
func pacedLogs(ctx context.Context, r *report, text string) error {
	server, err := startRedis(ctx, r.dir)
	if err != nil {
		return err
	}
	defer server.stop()
	rig, err := startProgramRig(ctx, r.dir, text, status.New(server.rdb), worker.Pool{Slots: programSlots})
	if err != nil {
		return err
	}
	if err := server.rdb.ConfigResetStat(ctx).Err(); err != nil {
		return err
	}
	began, cpu := time.Now(), ownCPU()
	rig.submit("paced", programSlots)
	took, err := rig.wait(ctx, "paced", programSlots)
	if err != nil {
		return err
	}
	seconds, used := time.Since(began).Seconds(), ownCPU()-cpu
	sent, all, err := commandCounts(ctx, server)
	if err != nil {
		return err
	}
	lines := float64(programSlots * logRate * pacedSeconds)
	perJob := seconds * programSlots
	r.add("lines of 8 programs that write 10 000/s each for 10 s", lines/seconds/1e3, "k lines/s", bar{})
	r.add("… the slowest program against the 10 s", quantile(took, 1)/1e3/pacedSeconds, "ratio", atMost(1.1))
	r.add("… processor time of the worker a line", used.Seconds()*1e6/lines, "µs", bar{})
	r.add("… calls of Redis for a job, with its claim and its end", sent/perJob, "/s", atMost(2))
	r.add("… with those that scripts make", all/perJob, "/s", bar{})
	return rig.close()
}

// commandCounts returns how many commands Redis was sent, and how many it has run with those of scripts.
func commandCounts(ctx context.Context, server *redisServer) (sent, all float64, err error) {
	text, err := server.rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read commandstats: %w", err)
		}
		all += n
		if strings.HasPrefix(name, "eval") {
			sent += n
		}
	}
	return sent, all, nil
}
