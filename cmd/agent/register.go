package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cmd/cli"
	"github.com/batchfleet/batchfleet/gateway"
)

// RegisterCommand makes this machine a worker of a gateway.
func RegisterCommand(version string) *cobra.Command {
	var address, enrollFile, tokenFile, caFile, name string
	c := &cobra.Command{
		Use:   "register",
		Short: "Make this machine a worker of a gateway, and keep its token in a file",
		Long: "Exchanges an enroll token, which the operator of the gateway gives out, for a token of this worker. The worker\n" +
			"renews it by itself. With a token file that is still good the worker stays who it is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			enroll, err := readEnroll(enrollFile)
			if err != nil {
				return cli.Exit(cli.Usage, fmt.Errorf("--enroll-token-file: %w", err))
			}
			c, err := gateway.NewClient(gateway.ClientConfig{URL: address, CAFile: caFile, Version: version})
			if err != nil {
				return cli.Exit(cli.Usage, fmt.Errorf("--gateway: %w", err))
			}
			defer c.Close()
			// Before the enroll token is used up.
			if err := writableFile(tokenFile); err != nil {
				return cli.Exit(cli.Usage, fmt.Errorf("--token-file: %w", err))
			}
			token, err := gateway.Register(cmd.Context(), c, enroll, name)
			if err != nil {
				return cli.Coded(cmd.Context(), fmt.Errorf("register with %s: %w", redacted(address), err))
			}
			if err := gateway.SaveToken(tokenFile, token); err != nil {
				return cli.Exit(cli.Failed, fmt.Errorf("--token-file: %w (the enroll token is used up: ask for another)", err))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "registered as %s (%s); its token is in %s, holds until %s and is renewed by the worker\nstart it with: SOURCE=%s WORKER_TOKEN_FILE=%s %s\n",
				token.WorkerID, token.Name, tokenFile, token.ExpiresAt.Local().Format(time.DateTime), redacted(address), tokenFile, cmd.Parent().CommandPath())
			return err
		},
	}
	flags := c.Flags()
	flags.StringVar(&address, "gateway", os.Getenv("SOURCE"), "address of the gateway, https://HOST (also from SOURCE)")
	flags.StringVar(&enrollFile, "enroll-token-file", "", "file with the enroll token; - for standard input")
	flags.StringVar(&tokenFile, "token-file", "worker.token", "where to keep the worker's token")
	flags.StringVar(&caFile, "ca-file", os.Getenv("GATEWAY_CA_FILE"), "certificates in PEM to trust beside the system's (also from GATEWAY_CA_FILE)")
	flags.StringVar(&name, "name", "", "name of this worker for people; the gateway chooses one when empty")
	_ = c.MarkFlagRequired("enroll-token-file") // the flag is there
	return c
}

// maxEnroll bounds the file of an enroll token, in bytes.
const maxEnroll = 4096

func readEnroll(file string) (string, error) {
	f := os.Stdin
	if file != "-" {
		var err error
		if f, err = os.Open(file); err != nil {
			return "", err
		}
		defer f.Close()
	}
	buf := make([]byte, maxEnroll+1)
	n, err := f.Read(buf)
	token := strings.TrimSpace(string(buf[:n]))
	switch {
	case n == 0:
		return "", fmt.Errorf("it is empty: %w", err)
	case n > maxEnroll || token == "" || strings.ContainsAny(token, " \t\r\n"):
		return "", errors.New("want one line with a token and nothing else")
	}
	return token, nil
}

// writableFile returns why a file cannot be written anew at path.
func writableFile(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path+".check", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
