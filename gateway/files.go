package gateway

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = ".batchfleet-tmp-"

// writeFile puts text into a file that only its owner may read. Readers see the
// file of before or the new one, and when it returns nil the new one survives a
// power cut.
func writeFile(dir, name string, text []byte) (err error) {
	temp := filepath.Join(dir, tempPrefix+rand.Text())
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
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
