package relay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Assets are the directories that assets may be read from, and how much of them a task may have.
type Assets struct {
	Roots    []string // absolute
	MaxBytes int64    // of all assets of a task together
}

// asset is a file that a task is to have.
type asset struct {
	root, path string // path is relative
	name       string // in input/
}

// check returns the files that URLs name, by their form alone.
func (a *Assets) check(urls []string) (all []asset, err error) {
	taken := map[string]bool{requestFile: true}
	for i, raw := range urls {
		field := fmt.Sprintf("input.assets[%d]", i)
		one, err := a.parse(raw)
		if err != nil {
			return nil, invalid(field, err.Error())
		}
		one.name = assetName(filepath.Base(one.path), i, taken)
		taken[one.name] = true
		all = append(all, one)
	}
	return all, nil
}

// assetName returns a name for a copy of a file: its own where that is allowed and free.
func assetName(base string, i int, taken map[string]bool) string {
	if validName(base) && !taken[base] {
		return base
	}
	name := "asset-" + strconv.Itoa(i+1)
	if ext := filepath.Ext(base); validName(name + ext) {
		name += ext
	}
	for taken[name] {
		name = "x" + name
	}
	return name
}

// parse returns the file that a URL names. Errors do not repeat it.
func (a *Assets) parse(raw string) (asset, error) {
	if len(raw) > maxAsset {
		return asset{}, fmt.Errorf("it has %d bytes: at most %d are allowed", len(raw), maxAsset)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || !strings.HasPrefix(raw, "file://"):
		return asset{}, errors.New("want file:///PATH")
	case u.Host != "" && u.Host != "localhost":
		return asset{}, errors.New("the host of a file:// URL must be empty or localhost")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return asset{}, errors.New("a file:// URL has no user, query or fragment here")
	case strings.ContainsAny(u.Path, "\\\x00") || !strings.HasPrefix(u.Path, "/"):
		return asset{}, errors.New("want an absolute path without backslash and NUL")
	case len(a.Roots) == 0:
		return asset{}, errors.New("this relay was started without --assets, so there are none")
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == ".." || part == "." {
			return asset{}, errors.New(`want a path without "." and ".."`)
		}
	}
	path := filepath.Clean(u.Path)
	for _, root := range a.Roots {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) && rel != "." {
			return asset{root: root, path: rel}, nil
		}
	}
	return asset{}, errors.New("it is not below a directory that was given with --assets")
}

// copyTo copies files into a directory, each after room has said that there is room for it. What is wrong with one of
// them is as from check; other errors are those of room, and of this machine's disk.
func (a *Assets) copyTo(dir string, all []asset, room func(bytes int64) error) error {
	left := a.MaxBytes
	for i, one := range all {
		n, err := one.copyTo(dir, left, a.MaxBytes, room)
		if problem := (*assetError)(nil); errors.As(err, &problem) {
			return invalid(fmt.Sprintf("input.assets[%d]", i), problem.Error())
		}
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

type assetError struct{ text string }

func (e *assetError) Error() string { return e.text }

// copyTo copies a file that may have left bytes; all of a task may have limit bytes.
func (a asset) copyTo(dir string, left, limit int64, room func(bytes int64) error) (n int64, err error) {
	root, err := os.OpenRoot(a.root)
	if err != nil {
		return 0, &assetError{"its directory cannot be opened"}
	}
	defer root.Close()
	// What is opened is looked at first: opening a pipe would wait, and a device may do anything.
	if info, err := root.Stat(a.path); errors.Is(err, fs.ErrNotExist) {
		return 0, &assetError{"there is no such file"}
	} else if err != nil || !info.Mode().IsRegular() {
		return 0, &assetError{"it is no regular file below its directory, or cannot be read"}
	}
	src, err := root.OpenFile(a.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, &assetError{"it cannot be read"}
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, &assetError{"it is no regular file"}
	}
	if info.Size() > left {
		return 0, &assetError{fmt.Sprintf("the assets of a task may have %d bytes together at most", limit)}
	}
	if err := room(info.Size()); err != nil {
		return 0, err
	}
	dst, err := os.OpenFile(filepath.Join(dir, a.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if n, err = io.Copy(dst, io.LimitReader(src, info.Size()+1)); err != nil {
		return n, err
	}
	if after, err := src.Stat(); err != nil || n != info.Size() || after.Size() != n || !after.ModTime().Equal(info.ModTime()) {
		return n, &assetError{"it was changed while it was copied; make the request again"}
	}
	return n, dst.Sync()
}
