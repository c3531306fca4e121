package cli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/pubsub"
)

func emulatorCommand() *cobra.Command {
	var addr, project, dir string
	var topics, subscriptions []string
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:   "emulator",
		Short: "Serve a Pub/Sub of our own on one port, gRPC and REST",
		Example: "  batchfleet emulator --addr 127.0.0.1:8085 --project local-dev \\\n" +
			"    --topic pdf-processing-topic --subscription pdf-processing-subscription",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			shareCPUs()
			if deadline < 10*time.Second || deadline > 600*time.Second {
				return program.Exit(program.Usage, fmt.Errorf("--ack-deadline is %s: must be from 10s to 600s", deadline))
			}
			if err := settings.CheckListen("--addr (or EMULATOR_ADDR)", addr, "127.0.0.1:8085"); err != nil {
				return program.Exit(program.Usage, err)
			}
			srv, err := openEmulator(emulator.Config{Log: program.NewLog(os.Stderr, slog.LevelInfo)}, dir)
			if err != nil {
				return program.Exit(program.Usage, err)
			}
			err = func() error {
				if err := createQueues(srv, project, topics, subscriptions, deadline); err != nil {
					return program.Exit(program.Usage, err)
				}
				l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
				if errors.Is(err, syscall.EADDRINUSE) {
					err = fmt.Errorf("%w (is another emulator running? --addr or EMULATOR_ADDR choose another address)", err)
				}
				if err != nil {
					return program.Exit(program.Usage, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "emulator listens on %s\n", l.Addr())
				return srv.Serve(ctx, l)
			}()
			return errors.Join(err, srv.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", cmp.Or(os.Getenv("EMULATOR_ADDR"), "127.0.0.1:8085"), "address to listen on, for gRPC and REST")
	f.StringVar(&project, "project", cmp.Or(os.Getenv("GCP_PROJECT_ID"), "local-dev"), "project of topics and subscriptions given by bare names")
	f.StringVar(&dir, "data-dir", os.Getenv("EMULATOR_DATA_DIR"), "directory in which everything survives a restart; nothing does when empty")
	f.StringSliceVar(&topics, "topic", envList("EMULATOR_TOPICS"), "topic to create at start; may be repeated")
	f.StringSliceVar(&subscriptions, "subscription", envList("EMULATOR_SUBSCRIPTIONS"), "subscription to create at start, to the first topic, or SUBSCRIPTION:TOPIC; may be repeated")
	f.DurationVar(&deadline, "ack-deadline", 600*time.Second, "ack deadline of the subscriptions, 10s to 600s")
	return cmd
}

func openEmulator(cfg emulator.Config, dir string) (*emulator.Server, error) {
	if dir == "" {
		return emulator.New(cfg), nil
	}
	return emulator.Open(cfg, dir)
}

// envList reads a list separated by commas.
func envList(name string) []string {
	if v := os.Getenv(name); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// shareCPUs leaves half of the CPUs to the fleet that the emulator serves, if
// GOMAXPROCS does not say otherwise. On two CPUs a queue on one of them answers
// sooner than one whose goroutines wake each other across both.
func shareCPUs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	}
}

// createQueues makes the topics and subscriptions that the flags name.
func createQueues(srv *emulator.Server, project string, topics, subscriptions []string, deadline time.Duration) error {
	for _, name := range topics {
		full, err := pubsub.TopicName("--topic", project, name)
		if err != nil {
			return err
		}
		if err := srv.EnsureTopic(full); err != nil {
			return err
		}
	}
	for _, name := range subscriptions {
		topic := ""
		if i := strings.LastIndexByte(name, ':'); i >= 0 {
			name, topic = name[:i], name[i+1:]
		}
		if topic == "" {
			if len(topics) == 0 {
				return fmt.Errorf("subscription %s: give its topic, as --topic T or as %s:T", name, name)
			}
			topic = topics[0]
		}
		fullTopic, err := pubsub.TopicName("--subscription", project, topic)
		if err != nil {
			return err
		}
		full, err := pubsub.SubscriptionName("--subscription", project, name)
		if err != nil {
			return err
		}
		if err := srv.EnsureSubscription(full, fullTopic, deadline); err != nil {
			return err
		}
	}
	return nil
}
