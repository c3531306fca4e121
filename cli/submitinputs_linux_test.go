package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

const mergeKinds = `
[merge]
command = ["sh", "-c", "for f; do echo \"$(basename \"$f\") $(cat \"$f\")\"; done >{output}/all.txt", "sh", "{input}"]
`

// TestK19SubmitTakesSeveralInputs gives a job two files of one name, an object and standard input, and sees what its program
// gets.
func TestK19SubmitTakesSeveralInputs(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands start has race tests of its own")
	c := newCommands(t)
	kinds := c.write("merge.toml", mergeKinds)
	other := t.TempDir()
	a, b := c.write("a.txt", "first"), filepath.Join(other, "a.txt")
	if err := os.WriteFile(b, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.testFleet.dir, "uploads"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.testFleet.dir, "uploads", "there.txt"), []byte("third"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start("KINDS_FILE=" + kinds)
	args := []string{"submit", "--kinds", kinds, "--kind", "merge", "--input", a, "--input", b, "--input", "uploads/there.txt", "--input", "-"}
	id := c.runWith(0, "", "fourth", args...)
	c.untilState(time.Minute, jobs.ID(id), "completed")
	if got, want := c.artifact(jobs.ID(id), "all.txt"), "a.txt first\n2-a.txt second\nthere.txt third\ninput fourth\n"; got != want {
		t.Errorf("the program got %q, want %q", got, want)
	}
	if got := slices.Sorted(maps.Values(c.uploads())); strings.Join(got, " ") != "first fourth second third" {
		t.Errorf("stored %q", got)
	}
	// A job that is known needs no second copy of its inputs, and other inputs are another job.
	before, sent := len(c.uploads()), c.published()
	key := append(slices.Clone(args), "--idempotency-key", "k")
	first := c.runWith(0, "", "fourth", key...)
	if again := c.runWith(0, "", "fourth", key...); again != first || first == "" {
		t.Errorf("jobs %q and %q of one key", first, again)
	}
	c.runWith(2, "--idempotency-key: this idempotency key was used", "fifth", key...)
	if stored, published := len(c.uploads())-before, c.published()-sent; stored != 3 || published != 1 {
		t.Errorf("stored %d and published %d with a key, want 3 and 1", stored, published)
	}
}

func TestK19SubmitOfSeveralInputsSaysWhatIsWrongAndLeavesNothing(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands start has race tests of its own")
	c := newCommands(t)
	kinds := c.write("merge.toml", mergeKinds+"[label]\ncommand = [\"sh\", \"--file={input}\"]\n")
	a, b := c.write("a.txt", "first"), c.write("b.txt", "second")
	many := []string{"--kind", "merge"}
	for range 1001 {
		many = append(many, "--input", a)
	}
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"--input: stat object uploads/none: file does not exist", []string{"--kind", "merge", "--input", a, "--input", "uploads/none"}},
		{"--input: 1001 inputs, at most 1000 are allowed", many},
		{"--input: a document has one, and not 2", []string{"--kind", "pdf", "--input", a, "--input", b}},
		{"--input: the command of kind label has {input} within an argument", []string{"--kind", "label", "--input", a, "--input", b}},
		{"--input - is given twice", []string{"--kind", "merge", "--input", "-", "--input", "-"}},
		{"--input is empty", []string{"--kind", "merge", "--input", a, "--input", ""}},
		{"--input is for one job without a FILE", []string{"--kind", "merge", "--input", a, "--input", b, a}},
		{"is not a regular file", []string{"--kind", "merge", "--input", a, "--input", c.dir}},
	} {
		c.run(2, tt.says, append([]string{"submit", "--kinds", kinds}, tt.args...)...)
	}
	c.redis.Kill()
	c.run(3, "connection refused", "submit", "--kinds", kinds, "--kind", "merge", "--input", a, "--input", b)
	if all, n := c.uploads(), c.published(); len(all) > 0 || n > 0 {
		t.Errorf("stored %v, published %d, want nothing", all, n)
	}
}
