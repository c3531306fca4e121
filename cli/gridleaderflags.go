package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
)

// gridLeaderFlags are the flags of batchfleet grid leader, and its argument.
type gridLeaderFlags struct {
	gridListen
	http, jobTokens string
	dir, sync       string

	maxJobs                     int
	minFree, maxBytes, maxBlobs int64
	keep, drain                 time.Duration

	web       net.Listener // for the Job API in place of http, if not nil
	webChosen bool         // --http was given
}

// gridWeb is where the Job API of a leader listens by default.
const gridWeb = "127.0.0.1:8095"

func (f *gridLeaderFlags) register(c *cobra.Command) {
	flags := c.Flags()
	f.gridListen.register(flags, "clients and workers")
	flags.StringVar(&f.http, "http", gridWeb, "where the Job API listens, for scope grid; another port is taken if this one is in use and was not given; none when empty")
	flags.StringVar(&f.jobTokens, "job-tokens-file", "", "file with the tokens of the Job API, which batchfleet token new makes; without one it is for this machine alone")
	flags.StringVar(&f.dir, "dir", "", "directory for jobs and results, so that they survive the leader; for one leader at a time; nothing is kept when empty")
	flags.StringVar(&f.sync, "sync", "always", "when what is kept is synced to disk: always, before it is promised; interval, each second; none, when the system does")
	flags.DurationVar(&f.drain, "drain-timeout", 8*time.Second, "how long running jobs may go on after SIGTERM; no more jobs are taken meanwhile")
	flags.DurationVar(&f.keep, "keep-results", 24*time.Hour, "how long results are kept for clients that do not come")
	flags.IntVar(&f.maxJobs, "max-jobs", 4_000_000, "jobs that have not ended; more are refused")
	flags.Int64Var(&f.maxBytes, "max-bytes", 2<<30, "memory for requests and results; jobs that need more are refused")
	flags.Int64Var(&f.maxBlobs, "max-blobs", 64<<30, "bytes on disk for inputs and results that are too large for a frame, which are kept while a job needs them and for 48h after their last use; when 0 such jobs are refused")
	flags.Int64Var(&f.minFree, "min-free-bytes", 64<<20, "with less free space on the disk of --dir no jobs are taken; those that were taken can end")
	complete(c, "sync", words("always", "interval", "none"))
}

var gridSyncs = map[string]leader.Sync{"always": leader.SyncAlways, "interval": leader.SyncInterval, "none": leader.SyncNone}

// check returns all that is wrong with the flags.
func (f *gridLeaderFlags) check() error {
	wrong := f.gridListen.check()
	if f.http != "" {
		wrong = append(wrong, settings.CheckListen("--http", f.http, gridWeb))
		if !onLoopback(f.http) && f.jobTokens == "" {
			wrong = append(wrong, fmt.Errorf("--http is %s, where others reach the Job API: give --job-tokens-file, or listen on 127.0.0.1", f.http))
		}
		if !onLoopback(f.http) && f.certFile == "" {
			wrong = append(wrong, fmt.Errorf("--http is %s, where the tokens of the Job API would be readable on their way: give --tls-cert and --tls-key, or listen on 127.0.0.1", f.http))
		}
	}
	if _, known := gridSyncs[f.sync]; !known {
		wrong = append(wrong, fmt.Errorf("--sync is %.40q: want always, interval or none", f.sync))
	}
	wrong = append(wrong, checkNumbers(
		flagNumber{"--max-jobs", int64(f.maxJobs), 1, 50_000_000}, flagNumber{"--max-bytes", f.maxBytes, 1 << 20, 1 << 44},
		flagNumber{"--max-blobs", f.maxBlobs, 0, 1 << 50}, flagNumber{"--min-free-bytes", f.minFree, 0, 1 << 50},
	)...)
	if f.keep < time.Minute || f.keep > 366*24*time.Hour {
		wrong = append(wrong, fmt.Errorf("--keep-results is %s: must be from 1m to a year", f.keep))
	}
	if f.drain < 0 || f.drain > 24*time.Hour {
		wrong = append(wrong, fmt.Errorf("--drain-timeout is %s: must be from 0s to 24h", f.drain))
	}
	return errors.Join(wrong...)
}

// leader returns a leader as the flags say, which is not open.
func (f *gridLeaderFlags) leader(log *slog.Logger) *leader.Leader {
	return &leader.Leader{
		Dir: f.dir, Sync: gridSyncs[f.sync], Log: log, MaxConns: f.maxConns, MaxPerIP: f.maxPerIP, MinFree: max(f.minFree, 1), Drain: f.drain,
		Schedule: schedule.Config{MaxJobs: f.maxJobs, MaxBytes: f.maxBytes, KeepResult: f.keep},
	}
}

// warn logs settings that are allowed, but seldom meant.
func (f *gridLeaderFlags) warn(ctx context.Context, log *slog.Logger) {
	if f.dir == "" {
		log.WarnContext(ctx, "nothing is kept: jobs and results are lost when this leader ends", "do", "give --dir")
	}
	f.gridListen.warn(ctx, log)
}
