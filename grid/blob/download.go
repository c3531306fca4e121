package blob

import (
	"crypto/sha256"
	"hash"
	"io"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Download is a blob that is being downloaded, perhaps over several connections one after the other. It must not be used concurrently.
type Download struct {
	blob   wire.Blob
	to     io.Writer
	offset int64
	sum    hash.Hash
	failed error // of the writer: it may have written a part of a chunk
}

// NewDownload returns the download of a blob. What is written counts only once [Client.Get] has returned nil.
func NewDownload(b wire.Blob, to io.Writer) *Download {
	return &Download{blob: b, to: to, sum: sha256.New()}
}

func (d *Download) write(chunk []byte) error {
	if _, d.failed = d.to.Write(chunk); d.failed != nil {
		return d.failed
	}
	d.sum.Write(chunk)
	d.offset += int64(len(chunk))
	return nil
}

func (d *Download) check() error { return checkSum(d.sum, d.blob.SHA256) }
