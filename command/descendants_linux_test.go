package command_test

import (
	"fmt"
	"testing"

	"github.com/batchfleet/batchfleet/command"
)

func TestK12ProcessesOfAShortRunAreThoseWithLaterIDs(t *testing.T) {
	for _, tt := range []struct {
		name            string
		id, other, last int
		want            bool
	}{
		{"later", 101, 100, 105, true},
		{"the last", 105, 100, 105, true},
		{"itself", 100, 100, 105, false},
		{"earlier", 99, 100, 105, false},
		{"higher than the last, from the round before", 106, 100, 105, false},
		{"later, before the ids began again", 32767, 32760, 310, true},
		{"later, after the ids began again", 301, 32760, 310, true},
		{"the last, after the ids began again", 310, 32760, 310, true},
		{"of the round before", 311, 32760, 310, false},
		{"of the round before, right before it", 32759, 32760, 310, false},
	} {
		if got := command.StartedAfter(tt.id, tt.other, tt.last); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if last := command.LastPID(); last <= 0 {
		t.Errorf("the id of the last process is %d", last)
	}
}

func TestK12WhatAShortRunLeavesIsFoundAmongFewIDsAndAmongMany(t *testing.T) {
	defer command.WithoutCgroups()()
	for _, others := range []int{0, 30, 100} {
		script := fmt.Sprintf(`for ((i = 0; i < %d; i++)); do /bin/true; done; read < <(setsid bash -c "echo; exec $SLEEP"); exit 0`, others)
		c, wantNothingLeft := hostile(t, script)
		if _, err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
		wantNothingLeft()
	}
}

func TestK12IDsAreTriedIfThereAreFewOfThem(t *testing.T) {
	last := command.LastPID()
	for _, tt := range []struct {
		after, last int
		listed      bool
	}{
		{last - 10, last, false},
		{last - 1000, last, true},
		{last + 1000, last, true}, // the ids began again
		{0, 0, true},
	} {
		if listed := command.Listed(tt.after, tt.last); listed != tt.listed {
			t.Errorf("after %d up to %d: listed %v, want %v", tt.after, tt.last, listed, tt.listed)
		}
	}
}
