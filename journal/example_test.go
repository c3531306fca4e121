package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/batchfleet/batchfleet/journal"
)

// stock counts what is on each shelf. Its journal has every change.
type stock map[string]int

func (s stock) apply(record []byte) error {
	var shelf string
	var change int
	if _, err := fmt.Fscan(strings.NewReader(string(record)), &shelf, &change); err != nil {
		return err
	}
	s[shelf] += change
	return nil
}

func (s stock) open(dir string) *journal.Journal {
	j, err := journal.Open(dir, journal.Options{Log: slog.New(slog.DiscardHandler)}, s.apply)
	if err != nil {
		log.Fatal(err)
	}
	return j
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	shelves := stock{}
	j := shelves.open(dir)
	for _, change := range []string{"bolts 10", "nuts 7", "bolts -4"} {
		// A change is applied and appended, and confirmed once it is on the disk.
		if err := shelves.apply([]byte(change)); err != nil {
			log.Fatal(err)
		}
		if err := j.Commit(ctx, j.Append([]byte(change)), true); err != nil {
			log.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		log.Fatal(err)
	}

	// Another process finds the same. A checkpoint has the state, so that the log before
	// it is no longer needed.
	shelves = stock{}
	j = shelves.open(dir)
	fmt.Println(shelves)
	cp, err := j.Checkpoint()
	if err != nil {
		log.Fatal(err)
	}
	defer cp.Abort() // nothing after Done
	for shelf, count := range shelves {
		if err := cp.Add(fmt.Appendf(nil, "%s %d", shelf, count)); err != nil {
			log.Fatal(err)
		}
	}
	if err := errors.Join(cp.Done(), j.Close()); err != nil {
		log.Fatal(err)
	}

	shelves = stock{}
	j = shelves.open(dir)
	fmt.Println(shelves, j.Close())
	// Output:
	// map[bolts:6 nuts:7]
	// map[bolts:6 nuts:7] <nil>
}
