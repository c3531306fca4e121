package output

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// How often progress is passed on: a value, and one of which only the text is new.
const (
	valueEvery = 100 * time.Millisecond
	textEvery  = time.Second
)

// progress passes on the newest progress, not too often. The Reader's mu is held when its
// methods are called.
type progress struct {
	newest, told jobs.Progress
	when         time.Time // when told was passed on
	timer        *time.Timer
	due          time.Time // when timer fires
}

// set notes progress. One that is less than before brings only its text: a program
// cannot go back.
func (p *progress) set(next jobs.Progress, r *Reader) {
	if less(next, p.newest) {
		next.Done, next.Total = p.newest.Done, p.newest.Total
	}
	p.newest = next
	if !p.isNew() {
		return
	}
	every := textEvery
	if next.Done != p.told.Done || next.Total != p.told.Total {
		every = valueEvery
	}
	due := p.when.Add(every)
	wait := time.Until(due)
	switch {
	case wait <= 0:
		p.flush(r.Progress)
	case p.timer == nil || due.Before(p.due):
		p.stop()
		p.due = due
		p.timer = time.AfterFunc(wait, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			p.flush(r.Progress)
		})
	}
}

// flush passes on what is new.
func (p *progress) flush(report func(jobs.Progress)) {
	p.stop()
	if p.isNew() {
		p.told, p.when = p.newest, time.Now()
		report(p.told)
	}
}

func (p *progress) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

func (p *progress) isNew() bool {
	return p.newest.Done != p.told.Done || p.newest.Total != p.told.Total || p.newest.Message != p.told.Message
}

// less reports whether a is less of its total than b.
func less(a, b jobs.Progress) bool {
	return b.Total > 0 && float64(a.Done)*float64(b.Total) < float64(b.Done)*float64(a.Total)
}

var commandPrefix = []byte("::progress")

// parseCommand reads "::progress AMOUNT TEXT". AMOUNT is "3/10", "30%", "30" or "0.3",
// TEXT may be missing.
func parseCommand(line []byte) (jobs.Progress, bool) {
	rest, ok := bytes.CutPrefix(line, commandPrefix)
	if !ok || len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
		return jobs.Progress{}, false
	}
	number, text, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(valid(string(rest))), "\t", " "), " ")
	p, ok := parseAmount(number)
	if !ok {
		return jobs.Progress{}, false
	}
	if p.Message = message(text); p.Message == "" {
		p.Message = strconv.Itoa(p.Percent()) + "%"
		if strings.Contains(number, "/") {
			p.Message = number
		}
	}
	return p, true
}

// parseAmount reads "3/10", "30%", "30" or "0.3".
func parseAmount(s string) (jobs.Progress, bool) {
	if done, total, ok := strings.Cut(s, "/"); ok {
		return ofTotal(done, total)
	}
	number, percent := strings.CutSuffix(s, "%")
	return part(number, percent)
}

// parsePattern reads the progress that pattern finds in line.
func parsePattern(pattern *regexp.Regexp, line string) (p jobs.Progress, ok bool) {
	m := pattern.FindStringSubmatchIndex(line)
	switch {
	case len(m) < 4 || m[2] < 0:
	case len(m) == 4:
		number, percent := strings.CutSuffix(line[m[2]:m[3]], "%")
		percent = percent || strings.HasPrefix(strings.TrimLeft(line[m[3]:], " "), "%")
		p, ok = part(strings.TrimSpace(number), percent)
	case m[4] >= 0:
		p, ok = ofTotal(strings.TrimSpace(line[m[2]:m[3]]), strings.TrimSpace(line[m[4]:m[5]]))
	}
	p.Message = message(line)
	return p, ok
}

// maxMessage is the longest text of progress, in bytes: it is written ten times a second.
const maxMessage = 512

func message(s string) string {
	return jobs.Clip(strings.TrimSpace(jobs.VisibleLine(valid(s))), maxMessage, " …")
}

// hundredths is the total of progress that is no count of things.
const hundredths = 100 * 100

// part reads a percentage, or a fraction: a number of at most 1 with a decimal point.
func part(s string, percent bool) (jobs.Progress, bool) {
	f, ok := number(s)
	if !ok {
		return jobs.Progress{}, false
	}
	if percent || f > 1 || !strings.Contains(s, ".") {
		f /= 100
	}
	return fraction(f), true
}

// ofTotal reads how much is done of a total.
func ofTotal(done, total string) (jobs.Progress, bool) {
	d, ok := number(done)
	t, ok2 := number(total)
	if !ok || !ok2 || t == 0 {
		return jobs.Progress{}, false
	}
	d = min(d, t)
	if strings.Contains(done+total, ".") || t >= 1<<31 {
		return fraction(d / t), true
	}
	return jobs.Progress{Done: int(d), Total: int(t)}, true
}

// fraction returns progress that is shown as the whole percents of f.
func fraction(f float64) jobs.Progress {
	p := jobs.Progress{Done: int(min(f, 1)*hundredths + 1e-6), Total: hundredths}
	// In floating point 0.29 is 28 percent: see jobs.Progress.Percent.
	if want := int(min(f, 1)*100 + 1e-6); p.Percent() < want {
		p.Done++
	}
	if f < 1 {
		p.Done = min(p.Done, p.Total-1)
	}
	return p
}

// number reads a number of digits, with a decimal point or without.
func number(s string) (float64, bool) {
	if s == "" || len(s) > 40 || strings.Trim(s, "0123456789.") != "" || s == "." {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}
