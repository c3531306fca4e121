package member_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// id returns the id of a job or attempt.
func id(n int) (g wire.GUID) {
	g[0], g[15] = 1, byte(n)
	return g
}

func must(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// heard returns what the leader was sent of some types, as short texts, and forgets everything. Credits that follow each other are one.
func (l *leader) heard(types ...wire.Type) string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	sum := 0
	for _, f := range l.said {
		switch {
		case !slices.Contains(types, f.Type):
		case f.Type != wire.Credit:
			texts, sum = append(texts, text(f)), 0
		case sum > 0:
			sum += creditOf(f)
			texts[len(texts)-1] = fmt.Sprintf("Credit %d", sum)
		default:
			texts, sum = append(texts, text(f)), creditOf(f)
		}
	}
	l.said = nil
	return strings.Join(texts, "; ")
}

// take returns what the leader was sent, and forgets it.
func (l *leader) take() []wire.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	return said
}

// firstSaid returns the first frame that the leader was sent, lastSaid the last one of a type.
func (l *leader) firstSaid() wire.Frame {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said[0]
}

func (l *leader) lastSaid(what wire.Type) wire.Frame {
	l.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range slices.Backward(l.said) {
		if f.Type == what {
			return f
		}
	}
	l.Fatalf("no %s has come", what)
	return wire.Frame{}
}

func creditOf(f wire.Frame) int { return int(binary.LittleEndian.Uint32(f.Payload)) }

// text is a frame as the tests write it: the ids by their last byte.
func text(f wire.Frame) string {
	switch f.Type {
	case wire.Credit:
		return fmt.Sprintf("Credit %d", creditOf(f))
	case wire.AckJob:
		var result wire.JobResult
		if err := json.Unmarshal(f.Payload, &result); err != nil {
			return err.Error()
		}
		s := fmt.Sprintf("AckJob %d as %d %s", f.CorrID[15], f.MsgID[15], result.Status)
		for _, more := range []string{result.Reason, result.Stdout} {
			if more != "" {
				s += " " + more
			}
		}
		return s
	case wire.HelloWorker:
		var c wire.Capability
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("HelloWorker %s of %d%s", f.Subject, c.MaxParallel, runningText(c.Running))
	case wire.Renew:
		var info wire.RenewInfo
		if err := json.Unmarshal(f.Payload, &info); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("Renew seen %d limit %d%s", info.Seen, *info.Limit, runningText(info.Running))
	case wire.Accept:
		return fmt.Sprintf("Accept %d as %d", f.CorrID[15], f.MsgID[15])
	case wire.Cancel:
		var c wire.CancelInfo
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("Cancel %d as %d %s", f.CorrID[15], f.MsgID[15], c.Reason)
	default:
		return f.Type.String()
	}
}

func runningText(all []wire.Running) (s string) {
	slices.SortFunc(all, func(a, b wire.Running) int { return int(a.JobID[15]) - int(b.JobID[15]) })
	for _, r := range all {
		s += fmt.Sprintf(" %d as %d", r.JobID[15], r.AttemptID[15])
	}
	return s
}

// want compares what was heard.
func want(tb testing.TB, what, got, want string) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s: %q, want %q", what, got, want)
	}
}

// sorted is what was heard in an order that is always the same.
func sorted(heard string) string {
	texts := strings.Split(heard, "; ")
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}
