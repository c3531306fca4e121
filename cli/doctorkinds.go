package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// kindsChecks returns what KINDS_FILE needs: a file without mistakes, and each program once.
func kindsChecks() []check {
	env := &own.Env{File: os.Getenv("KINDS_FILE")}
	if env.File == "" {
		return nil
	}
	set, err := kinds.Read(env.File)
	all := []check{{
		"kinds", env.File,
		func(context.Context) (string, error) {
			if err != nil {
				return "", err
			}
			return jobs.Count(len(set.Kinds), "kind") + ", no mistakes", nil
		},
		func(error) string {
			return "correct the file that KINDS_FILE names; `batchfleet kinds check` looks at it again"
		},
	}}
	if err != nil {
		return all
	}
	missing, help := map[string]error{}, map[string]string{}
	if wrong := (*kinds.FileError)(nil); errors.As(set.Executables(os.Getenv("PATH")), &wrong) {
		for _, m := range wrong.Mistakes {
			name, text := strings.TrimSuffix(m.Key, ".command"), m.String()
			end := strings.LastIndex(text, ": ") // what is wrong: what to do
			missing[name], help[name] = errors.New(text[:end]), text[end+2:]
		}
	}
	byProgram := map[string]int{}
	for _, k := range set.Kinds {
		name := k.Command[0]
		byProgram[name]++
		if byProgram[name] > 1 {
			continue
		}
		all = append(all, check{
			"kinds", name,
			func(context.Context) (string, error) {
				if k.Path == "" {
					return "", missing[string(k.Name)]
				}
				of := "of " + string(k.Name)
				if more := byProgram[name] - 1; more > 0 {
					of += fmt.Sprintf(" and %d more", more)
				}
				return k.Path + ", " + of, nil
			},
			always(help[string(k.Name)]),
		})
	}
	return all
}
