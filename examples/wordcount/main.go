// Command wordcount is batchfleet with a kind of its own, which counts words: its workers run jobs of
// kind wordcount beside all others.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/batchfleet/batchfleet"
)

func main() {
	batchfleet.Main(batchfleet.Kind{
		Name: "wordcount", Description: "how often each word is in a text", Run: countWords, Retries: 2,
	})
}

// params are what a job may ask for.
type params struct {
	Least int `json:"least"` // words that are rarer are left out
}

func countWords(ctx context.Context, job *batchfleet.Job) error {
	var p params
	if err := job.Params(&p); err != nil {
		return err
	}
	text, err := os.Open(job.Input())
	if err != nil {
		return batchfleet.Final(err)
	}
	defer text.Close()
	info, err := text.Stat()
	if err != nil {
		return err
	}
	counts, seen, total := map[string]int{}, 0, 0
	words := bufio.NewScanner(text)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		counts[strings.ToLower(strings.Trim(words.Text(), `.,;:!?"'()`))]++
		total++
		seen += len(words.Bytes()) + 1
		job.Progress(seen, int(info.Size()), "")
	}
	if err := words.Err(); err != nil {
		return err
	}
	delete(counts, "")
	for word, n := range counts {
		if n < p.Least {
			delete(counts, word)
		}
	}
	job.Log("%d words, %d of them are listed", total, len(counts))
	out, err := job.Create("words.json")
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(counts)
}
