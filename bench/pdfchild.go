package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/pdf"
)

// A summary is what our reader says of a document on its last line of stderr.
// A reader that ends without one has crashed.
type summary struct {
	Pages  int    `json:"pages"`
	Failed int    `json:"failed"` // pages with an error
	Panics int    `json:"panics"` // errors that were panics
	Err    string `json:"err"`    // of opening the document, or of the first page that failed
	Memory int64  `json:"memory"` // most bytes ever resident
}

func (s *summary) fail(err error) {
	if strings.Contains(err.Error(), "panic") {
		s.Panics++
	}
	if s.Err == "" {
		s.Err = err.Error()
	}
}

// The variables that tell the reading process what is not the file.
const (
	passwordVar = "BENCH_PDF_PASSWORD"
	workersVar  = "BENCH_PDF_WORKERS"
)

// servePDF is our reader as a program: it writes the text of the file that its
// second argument names as pdftotext does, with a form feed after each page.
// Without a file it ends at once, which measures the start of a process.
func servePDF(context.Context) error {
	if len(os.Args) < 3 {
		return nil
	}
	s := readPDF(os.Args[2])
	peak, _ := memoryOf("self", "VmHWM") // 0 where it cannot be known
	s.Memory = int64(peak)
	return json.NewEncoder(os.Stderr).Encode(s)
}

func readPDF(path string) (s summary) {
	workers, _ := strconv.Atoi(os.Getenv(workersVar)) // missing is 0
	d, err := pdf.OpenFile(path, pdf.Options{Password: os.Getenv(passwordVar), Workers: workers})
	if err != nil {
		s.fail(err)
		return s
	}
	defer func() { _ = d.Close() }() // it was only read
	s.Pages = d.NumPages()
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	for p, err := range d.Pages(1, d.NumPages()) {
		if err != nil {
			s.Failed++
			s.fail(err)
		}
		_, _ = out.WriteString(p.Text) // a Writer keeps its error for Flush
		_, _ = out.WriteString("\n\f")
	}
	if err := out.Flush(); err != nil {
		s.fail(err)
	}
	return s
}
