package schedule

import (
	"encoding/hex"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Limits of the log of a job, in bytes.
const (
	maxLog      = 64 << 10 // while it runs
	maxEndedLog = 4 << 10
	lineCost    = 32 // added for each line
)

// Line is a line that a program has written.
type Line struct {
	Number int // from 1, over all attempts
	At     Moment
	Text   string
}

// jobLog has the reports about a job. It is in memory only.
type jobLog struct {
	message string
	// checkpoint is for the next attempt; nil for none.
	checkpoint *wire.Blob
	lines      []Line
	bytes      int
	written    int // lines so far, also those that are dropped
}

// trim drops the oldest lines until what is left takes at most limit bytes.
func (l *jobLog) trim(limit int) {
	n := 0
	for ; n < len(l.lines) && l.bytes > limit; n++ {
		l.bytes -= lineCost + len(l.lines[n].Text)
	}
	if n > 0 {
		l.lines = append([]Line(nil), l.lines[n:]...)
	}
}

// Report keeps a report of a worker about a job that it runs.
func (c *Core) Report(now Moment, id PeerID, jobID, attemptID wire.GUID, info wire.ReportInfo) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.group == nil {
		return
	}
	a := c.attemptOf(p, jobID, attemptID)
	if a == nil {
		return
	}
	r := a.job.more()
	if r.log == nil {
		r.log = &jobLog{}
	}
	l := r.log
	c.bytes -= int64(l.bytes)
	if info.Message != "" {
		l.message = info.Message
	}
	if info.Checkpoint != nil {
		c.setCheckpoint(l, info.Checkpoint)
	}
	for _, text := range info.Lines {
		l.written++
		l.lines = append(l.lines, Line{Number: l.written, At: c.now, Text: text})
		l.bytes += lineCost + len(text)
	}
	l.trim(maxLog)
	c.bytes += int64(l.bytes)
}

// trimLog drops the message of a job that has ended, and its oldest lines beyond limit.
func (c *Core) trimLog(j *job, limit int) {
	if j.rare == nil || j.rare.log == nil {
		return
	}
	l := j.rare.log
	c.bytes -= int64(l.bytes)
	l.message = ""
	c.setCheckpoint(l, nil)
	l.trim(limit)
	c.bytes += int64(l.bytes)
}

// setCheckpoint replaces the checkpoint of a job, whose blob is needed until it is replaced; nil for none.
func (c *Core) setCheckpoint(l *jobLog, b *wire.Blob) {
	for by, b := range map[int]*wire.Blob{1: b, -1: l.checkpoint} {
		if b == nil {
			continue
		}
		digest, _ := hex.DecodeString(b.SHA256) // the store has it
		c.needBlobs(digest, by)
	}
	l.checkpoint = b
}

// checkpoint is for the next attempt at a job; nil for none.
func (j *job) checkpoint() *wire.Blob {
	if j.rare == nil || j.rare.log == nil {
		return nil
	}
	return j.rare.log.checkpoint
}

// Log returns the lines of a job's program that are kept, oldest first, and how many were dropped. The caller must not change them. It reports false if
// there is no such job.
func (c *Core) Log(id wire.GUID) (lines []Line, dropped int, ok bool) {
	j := c.jobs[id]
	if j == nil {
		return nil, 0, false
	}
	if j.rare == nil || j.rare.log == nil {
		return nil, 0, true
	}
	l := j.rare.log
	return l.lines, l.written - len(l.lines), true
}
