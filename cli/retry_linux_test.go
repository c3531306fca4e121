package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

const waitingKind = `
[copy]
command = ["sh", "-c", "[ -e \"$1\" ] || {{ echo not yet >&2; exit 65; }}; cp \"$BATCHFLEET_PARAMS\" {output}/params.json; cp \"$2\" {output}/input", "sh", "{params.mark}", "{input}"]
[copy.params.mark]
type = "string"
required = true
`

// TestK19RetryRunsAJobWithTheSameInputAndParams also where Redis has lost them: then its dead letter has them.
func TestK19RetryRunsAJobWithTheSameInputAndParams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lose func(c *commands, id jobs.ID) // what Redis loses meanwhile
		dead int                           // letters that are left
	}{
		{"nothing is lost", func(*commands, jobs.ID) {}, 1},
		{"the params are lost", func(c *commands, id jobs.ID) { c.rdb.Del(c.t.Context(), "{job:"+string(id)+"}:params") }, 0},
		{"all details are lost", func(c *commands, id jobs.ID) {
			c.rdb.Del(c.t.Context(), "{job:"+string(id)+"}:params", "{job:"+string(id)+"}:detail")
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCommands(t)
			c.withDead()
			kinds := c.write("copy.toml", waitingKind)
			mark := filepath.Join(c.dir, "mark")
			c.env = c.environment(keepsDead, "KINDS_FILE="+kinds)
			c.start(keepsDead, "KINDS_FILE="+kinds)
			id := jobs.ID(c.run(0, "", "submit", "--kind", "copy", "--param", "mark="+mark, "--input", c.write("a.txt", "some text")))
			c.untilState(time.Minute, id, "failed")
			c.dead(1)
			if err := os.WriteFile(mark, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			tt.lose(c, id)
			before := c.published()
			c.run(0, "is queued again", "retry", string(id))
			c.untilState(time.Minute, id, "completed")
			if got, want := c.artifact(id, "params.json")+c.artifact(id, "input"), `{"mark":"`+mark+`"}some text`; got != want {
				t.Errorf("it ran with %s, want %s", got, want)
			}
			c.dead(tt.dead)
			if n := c.published() - before; n != 1 {
				t.Errorf("published %d messages, want 1", n)
			}
			c.run(1, "Only a job that has failed can run again", "retry", string(id))
		})
	}
}

func TestK19RetryOfAJobThatNothingHasAnyMore(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	c.withDead()
	kinds := c.write("copy.toml", waitingKind)
	c.env = c.environment(keepsDead, "KINDS_FILE="+kinds)
	c.start(keepsDead, "KINDS_FILE="+kinds)
	id := c.run(0, "", "submit", "--kind", "copy", "--param", "mark="+filepath.Join(c.dir, "mark"), "--input", c.write("a.txt", "some text"))
	c.untilState(time.Minute, jobs.ID(id), "failed")
	c.dead(1)
	c.run(0, "", "dlq", "purge", "--yes", dlqWait, id)
	c.rdb.Del(t.Context(), "{job:"+id+"}:params")
	before := c.published()
	c.run(1, "has no dead letter that could be read now: submit it again", "retry", id)
	if got := c.state(jobs.ID(id)); got != "failed" || c.published() != before {
		t.Errorf("the job is %s, and %d messages were published", got, c.published()-before)
	}
}
