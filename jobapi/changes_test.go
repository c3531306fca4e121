package jobapi_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/batchfleet/batchfleet/jobapi"
)

func present(t *testing.T, c *jobapi.Changes) string {
	t.Helper()
	_, at, _, err := c.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestD09ChangesAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c jobapi.Changes
		c.Add("early") // before the first reader: it has asked for the present
		if c.Wanted() {
			t.Error("changes are wanted before the first reader")
		}
		at := present(t, &c)
		if !c.Wanted() {
			t.Error("changes are not wanted")
		}
		var got []string
		go func() {
			got, _, _, _ = c.Changes(t.Context(), at)
		}()
		synctest.Wait()
		c.Wake()
		synctest.Wait()
		if got != nil {
			t.Errorf("a wake has told %v", got)
		}
		c.Add("a", "b")
		synctest.Wait()
		if fmt.Sprint(got) != "[a b]" {
			t.Errorf("told %v", got)
		}
		c.Add("a")
		ids, next, lost, err := c.Changes(t.Context(), at)
		if fmt.Sprint(ids) != "[a b a]" || next != strings.TrimSuffix(at, "0")+"3" || lost || err != nil {
			t.Errorf("told %v, then %s, lost %t, %v", ids, next, lost, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer context.AfterFunc(t.Context(), cancel)()
		go func() {
			synctest.Wait()
			cancel()
		}()
		if ids, same, lost, err := c.Changes(ctx, next); ids != nil || same != next || lost || err != nil {
			t.Errorf("when its ctx ends: %v, %q, lost %t, %v", ids, same, lost, err)
		}
	})
}

func TestD09OldChangesAreLost(t *testing.T) {
	var c jobapi.Changes
	at := present(t, &c)
	const kept = 10_000
	for i := range kept {
		c.Add(fmt.Sprint(i))
	}
	next, told := at, 0
	for told < kept {
		ids, then, lost, err := c.Changes(t.Context(), next)
		if err != nil || lost || len(ids) > jobapi.MaxGet || ids[0] != fmt.Sprint(told) {
			t.Fatalf("after %d: %d, lost %t, %v", told, len(ids), lost, err)
		}
		next, told = then, told+len(ids)
	}
	c.Add("one more")
	if ids, now, lost, err := c.Changes(t.Context(), at); len(ids) > 0 || now == "" || !lost || err != nil {
		t.Errorf("a position that is no longer kept: %d, %q, lost %t, %v", len(ids), now, lost, err)
	}
	if ids, _, lost, err := c.Changes(t.Context(), next); fmt.Sprint(ids) != "[one more]" || lost || err != nil {
		t.Errorf("after the ring has gone round: %v, lost %t, %v", ids, lost, err)
	}
	var other jobapi.Changes
	if _, _, lost, _ := other.Changes(t.Context(), next); !lost {
		t.Error("a position of another process is taken")
	}
}

// Each reader sees each id of each writer in its order.
func TestD09ChangesAreToldToManyReaders(t *testing.T) {
	var c jobapi.Changes
	at := present(t, &c)
	const writers, each = 4, 500
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				c.Add(fmt.Sprintf("%d %d", w, i))
				c.Wake()
			}
		})
	}
	for range 3 {
		reading.Go(func() {
			next, seen := at, [writers]int{}
			for n := 0; n < writers*each; {
				<-c.Changed() // or the next call waits
				var ids []string
				var lost bool
				ids, next, lost, _ = c.Changes(t.Context(), next)
				if lost {
					t.Error("lost")
					return
				}
				for _, id := range ids {
					var w, i int
					if _, err := fmt.Sscan(id, &w, &i); err != nil || seen[w] != i {
						t.Errorf("told %q, want %d of writer %d", id, seen[w], w)
					}
					seen[w]++
					n++
				}
			}
		})
	}
	writing.Wait()
	done := make(chan struct{})
	go func() { reading.Wait(); close(done) }()
	for { // a reader may have asked for the next change after the last one
		select {
		case <-done:
			return
		default:
			c.Wake()
		}
	}
}
