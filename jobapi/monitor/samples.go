package monitor

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

const (
	sampleEvery = 10 * time.Second
	sampleKept  = 5 * time.Minute
	hoursShown  = 24 // before the current one
)

// sample is how many jobs had come and ended by a time.
type sample struct {
	at    time.Time // a multiple of sampleEvery
	total jobapi.Flow
}

// sampling counts the scope every 10 s until ctx ends.
func (s *scope) sampling(ctx context.Context) {
	if _, ok := s.Jobs.(jobapi.Counter); !ok {
		return
	}
	for {
		at := time.Now().Truncate(sampleEvery)
		s.sample(ctx, at)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(at.Add(sampleEvery))):
		}
	}
}

// sample counts the jobs of the scope. One that cannot be counted now is counted the next time.
func (s *scope) sample(ctx context.Context, at time.Time) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var counts jobapi.Counts
	err := s.safely(ctx, func() (err error) {
		counts, err = s.Jobs.(jobapi.Counter).Count(ctx)
		return err
	})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.samples); n > 0 && !s.samples[n-1].at.Before(at) { // the clock was set back
		s.samples = nil
	}
	s.samples = append(s.samples, sample{at, counts.Total})
	for at.Sub(s.samples[0].at) > sampleKept {
		s.samples = s.samples[1:]
	}
}

// recent returns what came and ended in each interval between samples. Where some are missing, it is shared out evenly.
func recent(samples []sample) []jobapi.Point {
	points := []jobapi.Point{}
	for i := 1; i < len(samples); i++ {
		from, to := samples[i-1], samples[i]
		gap := int64(to.at.Sub(from.at) / sampleEvery)
		for k := range gap {
			p := jobapi.Point{At: jobapi.At(from.at.Add(time.Duration(k) * sampleEvery))}
			for _, n := range []struct {
				to       *int64
				was, now int64
			}{
				{&p.In, from.total.In, to.total.In},
				{&p.Succeeded, from.total.Succeeded, to.total.Succeeded},
				{&p.Failed, from.total.Failed, to.total.Failed},
				{&p.Canceled, from.total.Canceled, to.total.Canceled},
			} {
				more := max(0, n.now-n.was) // a store that has lost its data begins again
				*n.to = more*(k+1)/gap - more*k/gap
			}
			points = append(points, p)
		}
	}
	return points
}

// day returns a point for each of the last 24 hours and for the current one.
func day(hours []jobapi.Flow, now time.Time) []jobapi.Point {
	byStart := map[int64]jobapi.Flow{}
	for _, f := range hours {
		byStart[f.Start.Unix()] = f
	}
	points := make([]jobapi.Point, 0, hoursShown+1)
	for start := now.UTC().Truncate(time.Hour).Add(-hoursShown * time.Hour); !start.After(now); start = start.Add(time.Hour) {
		f := byStart[start.Unix()]
		points = append(points, jobapi.Point{At: jobapi.At(start), In: f.In, Succeeded: f.Succeeded, Failed: f.Failed, Canceled: f.Canceled})
	}
	return points
}
