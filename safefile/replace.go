package safefile

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// TempPrefix begins the names of files that [Replace] has not finished.
const TempPrefix = ".batchfleet-tmp-"

// Replace gives a file new content, readable by its owner only. Readers see the file
// of before or the new one, and when it returns nil the new one survives a power cut.
func Replace(path string, text []byte) error {
	if err := Place(path, text); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Place is Replace without its last step. The new content survives a power cut only when a
// [SyncDir] of the directory that was called after Place has returned nil.
func Place(path string, text []byte) (err error) {
	temp := filepath.Join(filepath.Dir(path), TempPrefix+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp) // it may have its name already
		}
	}()
	_, err = f.Write(text)
	// Without the sync a power cut can leave the name with no content.
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// SyncDir makes new names in a directory survive a power cut, which could otherwise
// bring an old file back, and so a token that was revoked.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
