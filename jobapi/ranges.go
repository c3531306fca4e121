package jobapi

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// part finds which part of an artifact a request asks for (RFC 9110, 14), says so in the header h of the response,
// and makes content begin there. It returns how many bytes of it are to be sent, and the status. More than
// one part at a time is not offered: then it is the whole, as if none had been asked for.
func part(r *http.Request, h http.Header, content io.Reader, a Artifact) (length int64, status int, err error) {
	seeker, ok := content.(io.Seeker)
	if !ok || a.Tag == "" {
		return a.Bytes, http.StatusOK, nil
	}
	tag := `"` + a.Tag + `"`
	h.Set("ETag", tag)
	h.Set("Accept-Ranges", "bytes")
	start, length, asked := byteRange(r.Header.Values("Range"), a.Bytes)
	if known := r.Header.Get("If-Range"); !asked || known != "" && known != tag {
		return a.Bytes, http.StatusOK, nil
	}
	if length <= 0 {
		return 0, 0, &Refusal{
			Status: http.StatusRequestedRangeNotSatisfiable, Code: CodeRange, Message: fmt.Sprintf("The artifact has %d bytes, and none of those in Range", a.Bytes),
			Details: map[string]any{"bytes": a.Bytes},
		}
	}
	if start > 0 {
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return 0, 0, err
		}
	}
	h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, start+length-1, a.Bytes))
	return length, http.StatusPartialContent, nil
}

// byteRange reads a Range header. A length of 0 means that there is nothing in that range; asked is false
// for what is to be ignored.
func byteRange(header []string, size int64) (start, length int64, asked bool) {
	if len(header) != 1 {
		return 0, 0, false
	}
	unit, list, _ := strings.Cut(header[0], "=")
	first, last, ok := strings.Cut(strings.TrimSpace(list), "-")
	if !strings.EqualFold(unit, "bytes") || !ok {
		return 0, 0, false
	}
	from, hasFirst, ok1 := position(first)
	to, hasLast, ok2 := position(last)
	switch {
	case !ok1, !ok2, !hasFirst && !hasLast, hasFirst && hasLast && to < from:
		return 0, 0, false
	case !hasFirst:
		n := min(to, size)
		return size - n, n, true
	case !hasLast || to >= size:
		to = size - 1
	}
	return from, max(0, to-from+1), true
}

// position reads a position in a range, which may be left out.
func position(text string) (n int64, there, ok bool) {
	if text == "" {
		return 0, false, true
	}
	u, err := strconv.ParseUint(text, 10, 63) // no sign
	return int64(u), true, err == nil         //nolint:gosec // of 63 bits
}
