package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Limits of a hello.
const (
	DefaultParallel = 4      // the cap of a client that declares none
	MaxClientCap    = 10_000 // jobs of a client at once
	MaxParallel     = 65_536 // jobs of a worker at once
	MaxRunning      = 65_536 // attempts that a worker may list
	maxFeatures     = 64
	maxFeature      = 32
	maxToken        = 4096
	maxHost         = 255
)

// ReadConfig reads a HelloClient, whose subject is the client's id. A payload that is missing or cannot be read counts as [DefaultParallel] and no
// features, as at other leaders, and a DesiredParallelism that is no whole number as DefaultParallel. After an error the hello is refused, and the peer gets the error.
func ReadConfig(subject string, payload []byte) (ClientConfig, error) {
	if err := CheckClientID(subject); err != nil {
		return ClientConfig{}, err
	}
	var c ClientConfig
	switch err := json.Unmarshal(payload, &c); {
	case err == nil:
	case onlyDesired(err):
		c.DesiredParallelism = DefaultParallel // the others have been read
	default:
		c = ClientConfig{DesiredParallelism: DefaultParallel}
	}
	if c.ClientID != "" && c.ClientID != subject {
		return ClientConfig{}, fmt.Errorf("the payload has ClientId %.80q, and the subject is %s", c.ClientID, subject)
	}
	c.ClientID = subject
	c.DesiredParallelism = min(max(1, c.DesiredParallelism), MaxClientCap)
	return c, checkHello(c.Features, c.Token)
}

// onlyDesired reports whether DesiredParallelism has another type than it should, and is the first member that has.
func onlyDesired(err error) bool {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok && wrong.Field == "DesiredParallelism"
}

// ReadCapability reads the payload of a HelloWorker. An empty one is from a worker without features.
func ReadCapability(payload []byte) (Capability, error) {
	var c Capability
	if len(payload) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		return Capability{}, fmt.Errorf("the payload of HelloWorker: %w", err)
	}
	switch {
	case c.MaxParallel < 0 || c.MaxParallel > MaxParallel:
		return Capability{}, fmt.Errorf("MaxParallel %d must be 0 to %d", c.MaxParallel, MaxParallel)
	case len(c.Host) > maxHost || len(c.Version) > maxHost:
		return Capability{}, fmt.Errorf("members Host or Version have more than %d bytes", maxHost)
	case len(c.Running) > MaxRunning:
		return Capability{}, fmt.Errorf("%d attempts are Running, at most %d", len(c.Running), MaxRunning)
	}
	return c, checkHello(c.Features, c.Token)
}

func checkHello(features []string, token string) error {
	if len(features) > maxFeatures {
		return fmt.Errorf("%d Features, at most %d", len(features), maxFeatures)
	}
	for _, f := range features {
		if len(f) > maxFeature {
			return fmt.Errorf("feature %.80q has %d bytes, at most %d", f, len(f), maxFeature)
		}
	}
	if len(token) > maxToken {
		return errors.New("the Token is too long")
	}
	return nil
}
