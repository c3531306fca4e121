package schedule

import (
	"maps"
	"slices"
	"time"
)

// PausedExec is an exec whose jobs stay queued.
type PausedExec struct {
	Exec  string
	Since time.Time
}

// Pause keeps the jobs of an exec queued; those that run go on. It reports whether the exec was not paused before.
func (c *Core) Pause(now Moment, exec string) bool {
	c.at(now)
	if c.paused[exec] != 0 {
		return false
	}
	c.changePause(exec, c.cfg.Epoch.Add(c.now).UnixMilli())
	return true
}

// Resume ends a pause. It reports whether there was one.
func (c *Core) Resume(now Moment, exec string) bool {
	c.at(now)
	if c.paused[exec] == 0 {
		return false
	}
	c.changePause(exec, 0)
	return true
}

func (c *Core) changePause(exec string, at int64) {
	c.setPaused(exec, at)
	if !c.cfg.NoRecords {
		c.keep(pauseRecord(c.buf, exec, at))
	}
}

// setPaused notes since when an exec is paused; 0 for one that is not. A paused exec belongs to no group, as if no worker took its jobs: so no
// step of an assignment looks at pauses.
func (c *Core) setPaused(name string, at int64) {
	if at != 0 {
		c.paused[name] = at
	} else {
		delete(c.paused, name)
	}
	for _, array := range []bool{false, true} {
		e := c.execs[execKey{name, array}]
		if e == nil {
			continue
		}
		for _, m := range e.members {
			m.turn.leave()
		}
		e.members = nil
		c.join(e) // with nothing while it is paused
		for _, m := range e.members {
			c.heat(m.group)
		}
	}
}

// Paused returns the execs that are paused, by name.
func (c *Core) Paused() (all []PausedExec) {
	for _, exec := range slices.Sorted(maps.Keys(c.paused)) {
		all = append(all, PausedExec{exec, time.UnixMilli(c.paused[exec])})
	}
	return all
}

// Takes reports whether jobs of an exec are known, or a connected worker would take one.
func (c *Core) Takes(exec string) bool {
	key := execKey{name: exec}
	if c.execs[key] != nil || c.execs[execKey{exec, true}] != nil {
		return true
	}
	for _, g := range c.groups {
		if g.takes(key) {
			return true
		}
	}
	return false
}
