package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/kinds"
)

// TestK01NoKindIsNamedLikeOneOfOurs: package kinds keeps a list of its own, because it stands
// below those that know the names.
func TestK01NoKindIsNamedLikeOneOfOurs(t *testing.T) {
	for _, name := range slices.Concat(knownKinds, operationNames(), []string{kindOf("fleet.pdf"), strings.TrimPrefix(unknownType, "fleet.")}) {
		_, err := kinds.Parse("kinds.toml", fmt.Appendf(nil, "[%s]\ncommand = [\"true\"]\n", name))
		if err == nil || !strings.Contains(err.Error(), "choose another name") {
			t.Errorf("a kind may be named %s: %v", name, err)
		}
	}
	for _, name := range knownKinds {
		if builtIn[name] == "" {
			t.Errorf("kind %s has no description", name)
		}
	}
}
