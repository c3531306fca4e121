package pdf_test

import (
	"bytes"
	"fmt"
	"log"
	"os"

	"github.com/batchfleet/batchfleet/pdf"
)

func Example() {
	data, err := os.ReadFile("testdata/plain.pdf")
	if err != nil {
		log.Fatal(err)
	}
	doc, err := pdf.Open(bytes.NewReader(data), int64(len(data)), pdf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d page\n", doc.Info().Title, doc.NumPages())
	for page, err := range doc.Pages(1, doc.NumPages()) {
		if err != nil {
			log.Print(err) // the other pages may still be read
		}
		fmt.Printf("page %d has %d words:\n%s\n", page.Number, page.Words, page.Text)
	}
	// Output:
	// Orders: 1 page
	// page 1 has 8 words:
	// Attack at dawn
	// and not a minute later.
}
