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

type limitedEnv struct {
	Port *int `envconfig:"TEST_PORT" range:"1,65535"`
	Size *int `envconfig:"TEST_SIZE" range:"1,9"`
}

func (e *limitedEnv) Check() []error { return settings.Limits(e) }

func TestWhatFollowsFromAMistakeIsNoOtherOne(t *testing.T) {
	t.Setenv("TEST_PORT", "abc")
	t.Setenv("TEST_SIZE", "10")
	const want = "configuration:\nTEST_PORT is \"abc\": want a whole number\nTEST_SIZE is 10: must be from 1 to 9"
	if err := settings.Read(&limitedEnv{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestJ27AMistakenVariableIsQuotedWithoutItsPassword(t *testing.T) {
	t.Setenv("TEST_PORT", "redis://user:canary@host:6379")
	err := settings.Read(&portEnv{})
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "host:6379") {
		t.Errorf("%v", err)
	}
}
