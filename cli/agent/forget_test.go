package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

func TestK05WhatAJobHadInTheStoreIsDeletedWithItsInputs(t *testing.T) {
	store, err := storage.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, object := range []string{"inputs/several/0001", "inputs/several/0002", "results/several/artifacts/a", "inputs/one", "inputs/several-more/0001", "inputs/other"} {
		if err := store.Put(t.Context(), object, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []jobs.ID{"several", "one", "one"} {
		if err := forgetFiles(t.Context(), store, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	var left []string
	err = store.Walk(t.Context(), "", func(name string, _ storage.Info, err error) error {
		left = append(left, name)
		return err
	})
	slices.Sort(left)
	if want := []string{"inputs/other", "inputs/several-more/0001"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%v, %v are left; want %v", left, err, want)
	}
}
