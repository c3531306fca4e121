package pubsub

import (
	"fmt"
	"path"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// idPattern is Pub/Sub's rule for the characters of a name.
var idPattern = jobs.Form(`^[A-Za-z0-9._~+%-]*$`)

// SubscriptionName returns the full name of a subscription that the given
// variable, which errors name, holds bare or in full.
func SubscriptionName(variable, project, name string) (string, error) {
	return fullName(variable, project, "subscriptions", name)
}

// TopicName is SubscriptionName for a topic.
func TopicName(variable, project, name string) (string, error) {
	return fullName(variable, project, "topics", name)
}

func fullName(variable, project, collection, name string) (string, error) {
	full, _ := path.Match("projects/?*/"+collection+"/?*", name) // a good pattern
	switch {
	case name == "":
		return "", fmt.Errorf("%s is empty", variable)
	case !idPattern().MatchString(name[strings.LastIndexByte(name, '/')+1:]):
		return "", fmt.Errorf("%s is %q: a name holds only letters, digits and - _ . ~ + %%", variable, name)
	case full:
		return name, nil
	case strings.Contains(name, "/"):
		return "", fmt.Errorf("%s is %q: give a bare name or projects/PROJECT/%s/NAME", variable, name, collection)
	case project == "":
		return "", fmt.Errorf("%s is the bare name %q, so GCP_PROJECT_ID must be set (local-dev with the emulator)", variable, name)
	}
	return "projects/" + project + "/" + collection + "/" + name, nil
}
