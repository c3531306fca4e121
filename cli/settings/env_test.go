package settings_test

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/settings"
)

type portEnv struct {
	Port int `envconfig:"TEST_PORT"`
}

func (*portEnv) Check() []error { return nil }

func TestJ27AMistakenVariableIsQuotedWithoutItsPassword(t *testing.T) {
	t.Setenv("TEST_PORT", "redis://user:canary@host:6379")
	err := settings.Read(&portEnv{})
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "host:6379") {
		t.Errorf("%v", err)
	}
}
