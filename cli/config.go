package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/trace/otlp"
)

// ServerEnv says which server the commands about jobs ask.
type ServerEnv struct {
	API       string `envconfig:"BATCHFLEET_API" doc:"address of the server that the commands about jobs ask, as their --api; without, what the other variables name"`
	TokenFile string `envconfig:"BATCHFLEET_TOKEN_FILE" doc:"file with the token for it, as --token-file"`
	CAFile    string `envconfig:"BATCHFLEET_CA_FILE" doc:"certificates in PEM to trust beside the system's, as --ca-file"`
}

// EmulatorEnv says how the emulator starts.
type EmulatorEnv struct {
	Addr          string   `envconfig:"EMULATOR_ADDR" default:"127.0.0.1:8085" doc:"where it listens, as --addr"`
	Topics        []string `envconfig:"EMULATOR_TOPICS" doc:"what it makes at start, separated by commas, as --topic"`
	Subscriptions []string `envconfig:"EMULATOR_SUBSCRIPTIONS" doc:"what it makes at start, separated by commas, as --subscription"`
	Dir           string   `envconfig:"EMULATOR_DATA_DIR" doc:"directory in which everything survives a restart, as --data-dir"`
}

// ProgramEnv is for every command.
type ProgramEnv struct {
	LogLevel string `envconfig:"LOG_LEVEL" default:"INFO" want:"DEBUG, INFO, WARN or ERROR" doc:"what is logged"`
	NoColor  string `envconfig:"NO_COLOR" doc:"no colors on a terminal, whatever its value"`
	Password string `envconfig:"BATCHFLEET_PDF_PASSWORD" doc:"for documents that batchfleet pdf reads"`
	Google   string `envconfig:"GOOGLE_APPLICATION_CREDENTIALS" doc:"as in Google's libraries: a file with credentials"`
	Storage  string `envconfig:"STORAGE_EMULATOR_HOST" doc:"as in Google's libraries: an emulator of Cloud Storage"`
	Profile  string `envconfig:"AWS_PROFILE" doc:"as in AWS's programs: who asks, of those in the credentials file"`
	AWSFile  string `envconfig:"AWS_SHARED_CREDENTIALS_FILE" doc:"as in AWS's programs: the credentials file; ~/.aws/credentials when empty"`
}

// section is some settings, with whom they are for.
type section struct {
	title    string
	settings []settings.Setting
}

// sections returns all settings there are, each in the section of those that need it.
func sections() []section {
	return []section{
		{"Redis, storage and Pub/Sub: worker, dev, doctor, and the commands about jobs", settings.Describe(&ClientEnv{})},
		{"Commands about jobs", append(settings.Describe(&ServerEnv{}), without(settings.Describe(&LocalEnv{}), settings.Describe(&ClientEnv{}))...)},
		{"worker, dev", without(settings.Describe(&WorkerEnv{}), settings.Describe(&ClientEnv{}))},
		{"worker of a gateway (with SOURCE)", settings.Describe(&AgentEnv{})},
		{"gateway, and a worker with SOURCE=redis://…; beside them REDIS_…", without(settings.Describe(&GatewayEnv{}), settings.Describe(&ClientEnv{}))},
		{"Kinds of your own: kinds, doctor", settings.Describe(&own.Env{})},
		{"grid worker", settings.Describe(&GridWorkerEnv{})},
		{"grid client", settings.Describe(&GridClientEnv{})},
		{"emulator", settings.Describe(&EmulatorEnv{})},
		{"Every command", settings.Describe(&ProgramEnv{})},
		{"Traces, of every command", settings.Describe(&otlp.Env{})},
	}
}

func without(all, some []settings.Setting) []settings.Setting {
	return slices.DeleteFunc(all, func(s settings.Setting) bool {
		return slices.ContainsFunc(some, func(o settings.Setting) bool { return o.Name == s.Name })
	})
}

// secretSettings are those whose values are never shown.
var secretSettings = []string{
	"REDIS_PASSWORD", "BATCHFLEET_PDF_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
	"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
}

// configRow is how a setting is printed as JSON.
type configRow struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Value   string `json:"value"`
	From    string `json:"from"` // environment, .env or default
	Default string `json:"default,omitempty"`
	Want    string `json:"want,omitempty"`
	Doc     string `json:"doc,omitempty"`
}

func configCommand() *cobra.Command {
	var set, asJSON bool
	cmd := &cobra.Command{
		Use: "config", Short: "Show every setting, its value, and where that comes from", Args: cobra.NoArgs,
		Long: "Show every variable of the environment that batchfleet heeds, its value, and where that comes from: the environment, the\n" +
			"file .env of this directory, or the default. docs/configuration.md says what each is for, and so does --json. Passwords\n" +
			"are not shown.",
		Example: "  batchfleet config --set",
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			none := true
			for _, s := range sections() {
				rows := configRows(s, set)
				if len(rows) == 0 {
					continue
				}
				if !asJSON {
					if !none {
						fmt.Fprintln(out)
					}
					fmt.Fprintf(out, "# %s\n", s.title)
				}
				err := printRows(out, asJSON, rows, []any{"VARIABLE", "VALUE", "FROM"}, func(r configRow) []any { return []any{r.Name, r.Value, r.From} })
				if err != nil {
					return err
				}
				none = false
			}
			if none {
				fmt.Fprintln(cmd.ErrOrStderr(), "nothing is set: every setting has its default")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&set, "set", false, "only what is set")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func configRows(of section, set bool) (rows []configRow) {
	for _, s := range of.settings {
		r := configRow{Section: of.title, Name: s.Name, Value: s.Default, From: "default", Default: s.Default, Want: s.Want, Doc: s.Doc}
		if value := os.Getenv(s.Name); value != "" {
			r.Value, r.From = redact.Text(value), "environment"
			if program.FromFile(s.Name) {
				r.From = ".env"
			}
			if slices.Contains(secretSettings, s.Name) {
				r.Value = redact.Mark
			}
		} else if set {
			continue
		}
		rows = append(rows, r)
	}
	return rows
}

// misspelt returns what to say of variables of the environment that are probably meant to be
// one of ours.
func misspelt(environ []string) (notes []string) {
	var known []string
	for _, s := range sections() {
		for _, one := range s.settings {
			known = append(known, one.Name)
		}
	}
	known = append(known, "JOB_API", "JOB_TOKEN_FILE", "JOB_CA_FILE") // of the commands `job …`
	known = append(known, "BATCHFLEET_JOB_ID", "BATCHFLEET_KIND", "BATCHFLEET_ATTEMPT", "BATCHFLEET_INPUT", "BATCHFLEET_OUTPUT", "BATCHFLEET_CHECKPOINT",
		"BATCHFLEET_PARAMS", "BATCHFLEET_DEADLINE", command.Marker) // of a program of the kinds file that calls us
	set := map[string]bool{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value != ""
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" || slices.Contains(known, name) {
			continue
		}
		near := nearest(name, known)
		if i := slices.IndexFunc(known, func(k string) bool { return !set[k] && incomplete(name, k) || slipped(name, k) }); near == "" && i >= 0 {
			near = known[i]
		}
		switch {
		case near != "":
			notes = append(notes, fmt.Sprintf("%s is set, which batchfleet does not know: do you mean %s?", oneLine(name), near))
		case strings.HasPrefix(name, "BATCHFLEET_") && name != "BATCHFLEET_TEST_MAIN":
			notes = append(notes, fmt.Sprintf("%s is set, which batchfleet does not know; `batchfleet config` shows what there is", oneLine(name)))
		}
	}
	return notes
}

// nearest returns which of the known variables with the same first word is at most two letters
// away, empty for none.
func nearest(name string, known []string) (near string) {
	first, _, more := strings.Cut(name, "_")
	best := 3
	for _, k := range known {
		if !more || !strings.HasPrefix(k, first+"_") || max(len(name), len(k))-min(len(name), len(k)) >= best {
			continue
		}
		if d := levenshtein.ComputeDistance(name, k); d < best {
			near, best = k, d
		}
	}
	return near
}

// incomplete reports whether a variable is one of ours without its last word: PUBSUB_EMULATOR.
// It is no mistake beside ours: other programs have it. One word alone says too little.
func incomplete(name, ours string) bool {
	rest, ok := strings.CutPrefix(ours, name+"_")
	return ok && strings.Contains(name, "_") && !strings.Contains(rest, "_")
}

// slipped reports whether the first word of a variable is that of one of ours but for one slip of
// the fingers: REDSI_HOST. Short words are too near to those of others, and few misspell a first
// letter.
func slipped(name, ours string) bool {
	word, rest, more := strings.Cut(name, "_")
	own, ownRest, ownMore := strings.Cut(ours, "_")
	least := 5
	if !more {
		least = 8 // there is nothing more to know it by: PROCESSORR, but not SOURCES
	}
	return more == ownMore && rest == ownRest && len(own) >= least && (swapped(word, own) || word != "" && word[0] == own[0] && levenshtein.ComputeDistance(word, own) == 1)
}

// swapped reports whether two words differ in the order of two neighbours.
func swapped(a, b string) bool {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return len(a) == len(b) && i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}
