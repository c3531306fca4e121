package storage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strings"

	"github.com/batchfleet/batchfleet/storage"
)

// show prints every object whose name begins with prefix.
func show(ctx context.Context, store storage.Store, prefix string) error {
	return store.Walk(ctx, prefix, func(name string, info storage.Info, err error) error {
		if err != nil {
			return err
		}
		fmt.Printf("%s has %d bytes\n", name, info.Size)
		return nil
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	local, err := storage.NewLocal(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = local.Close() }()

	var store storage.Store = local // package gcs has another
	ctx := context.Background()
	if err := store.Put(ctx, "results/a/result.json", strings.NewReader(`{"pages": 3}`)); err != nil {
		log.Fatal(err)
	}
	if err := show(ctx, store, "results/"); err != nil {
		log.Fatal(err)
	}
	r, err := store.Open(ctx, "results/a/result.json")
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", text)

	// A Put that fails leaves the object as it was.
	broken := io.MultiReader(strings.NewReader(`{"pages":`), new(cutOff))
	fmt.Println(store.Put(ctx, "results/a/result.json", broken))
	_, err = store.Stat(ctx, "results/b/result.json")
	fmt.Println("no such object:", errors.Is(err, fs.ErrNotExist))
	_, err = store.Stat(ctx, "../secrets")
	fmt.Println("no name:", errors.Is(err, fs.ErrInvalid))
	if err := show(ctx, store, ""); err != nil {
		log.Fatal(err)
	}
	// Output:
	// results/a/result.json has 12 bytes
	// {"pages": 3}
	// put object results/a/result.json: the sender is gone
	// no such object: true
	// no name: true
	// results/a/result.json has 12 bytes
}

// cutOff is a reader that fails.
type cutOff struct{}

func (*cutOff) Read([]byte) (int, error) { return 0, errors.New("the sender is gone") }
