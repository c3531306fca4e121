package processor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxRawPage is how many bytes pdftotext may write for one page, 16 times what
// is kept of it.
const maxRawPage = 64 << 20

// splitPages cuts what pdftotext writes into pages and passes each, without its
// form feed, to page; the slice is valid until page returns. Of a page longer
// than maxPageText the beginning is passed and whole is false. It returns the
// first error of r or of page, and errTruncated for text after the last form feed,
// which pdftotext writes only when it is stopped.
//
// pdftotext ends a page with a form feed and puts it where a line would begin.
// A form feed elsewhere is part of a word: fonts may say that a code means one.
func splitPages(r io.Reader, page func(text []byte, whole bool) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var text []byte
	size, before := 0, byte('\f') // bytes of this page; the byte before the next
	for {
		piece, err := in.ReadSlice('\f')
		if n := len(piece); n > 0 {
			end := piece[n-1] == '\f'
			if n > 1 {
				before = piece[n-2]
			}
			feed := end && (before == '\n' || before == '\f')
			if feed {
				piece = piece[:n-1]
			}
			size += len(piece)
			text = append(text, piece[:min(len(piece), maxPageText-len(text))]...)
			switch {
			case size > maxRawPage:
				return fmt.Errorf("pdftotext wrote more than %d bytes for one page", maxRawPage)
			case feed:
				if err := page(bytes.ReplaceAll(text, []byte("\f"), []byte(" ")), size == len(text)); err != nil {
					return err
				}
				text, size, before = text[:0], 0, '\f'
			case end:
				before = ' '
			default:
				before = piece[n-1]
			}
		}
		switch {
		case errors.Is(err, io.EOF) && size > 0:
			return fmt.Errorf("pdftotext: %w of a page", errTruncated)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read from pdftotext: %w", err)
		}
	}
}
