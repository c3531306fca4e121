package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// pageRange is some pages of a document.
type pageRange struct {
	first int // from 1
	last  int // 0 for the end of the document
}

// pageRanges is a flag such as 3, 3-7, 3-, -7 or 1,4-6; none means all pages.
type pageRanges []pageRange

// Set implements pflag.Value.
func (r *pageRanges) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		one, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		*r = append(*r, one)
	}
	return nil
}

func parseRange(text string) (pageRange, error) {
	low, high, isRange := strings.Cut(text, "-")
	first, err := pageNumber(low, 1)
	last := first
	if err == nil && isRange {
		last, err = pageNumber(high, 0)
	}
	switch {
	case err != nil || text == "" || text == "-":
		return pageRange{}, fmt.Errorf("%q: want pages such as 3, 3-7, 3-, -7 or 1,4-6", text)
	case last != 0 && last < first:
		return pageRange{}, fmt.Errorf("%q ends before it begins", text)
	}
	return pageRange{first, last}, nil
}

func pageNumber(text string, missing int) (int, error) {
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil && n == 0 {
		err = strconv.ErrRange // pages count from 1
	}
	return int(n), err
}

// String implements pflag.Value.
func (r *pageRanges) String() string {
	var parts []string
	for _, one := range *r {
		parts = append(parts, one.String())
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (r *pageRanges) Type() string { return "pages" }

func (r pageRange) String() string {
	switch r.last {
	case r.first:
		return strconv.Itoa(r.first)
	case 0:
		return fmt.Sprintf("%d-", r.first)
	}
	return fmt.Sprintf("%d-%d", r.first, r.last)
}

// within returns an error unless a document of so many pages has all of them.
func (r pageRanges) within(pages int) error {
	for _, one := range r {
		if max(one.first, one.last) > pages {
			what := "pages %s are"
			if one.first == one.last {
				what = "page %s is"
			}
			return fmt.Errorf(what+" out of range: the document has %s", one, jobs.Count(pages, "page"))
		}
	}
	return nil
}
