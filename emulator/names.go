package emulator

import (
	"cmp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// deletedTopic is the topic of a subscription whose topic is deleted.
const deletedTopic = "_deleted-topic_"

// checkName returns an INVALID_ARGUMENT error unless name is
// projects/{project}/{collection}/{id} and id follows Google's rules.
func checkName(name, collection string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[2] != collection {
		return status.Errorf(codes.InvalidArgument,
			"invalid resource name %s: want projects/{project}/%s/{id}", clip(name), collection)
	}
	if err := checkProject(parts[1]); err != nil {
		return err
	}
	if why := badID(parts[3]); why != "" {
		return status.Errorf(codes.InvalidArgument, "invalid resource name %s: the id %s", clip(name), why)
	}
	return nil
}

// badID returns what is wrong with the last part of a resource name, or "".
func badID(id string) string {
	switch {
	case len(id) < 3 || len(id) > 255:
		return "must have 3 to 255 characters"
	case !isLetter(id[0]):
		return "must begin with a letter"
	case strings.HasPrefix(id, "goog"):
		return `must not begin with "goog"`
	}
	for i := range len(id) {
		if c := id[i]; !isLetter(c) && !isDigit(c) && !strings.ContainsRune("-_.~+%", rune(c)) {
			return "may hold only letters, digits and - _ . ~ + %"
		}
	}
	return ""
}

// checkProject is wider than Google's rule, which wants 6 to 30 characters:
// local projects are called p or test.
func checkProject(project string) error {
	if project == "" || len(project) > 128 {
		return status.Errorf(codes.InvalidArgument, "invalid project %s: want 1 to 128 characters", clip(project))
	}
	for i := range len(project) {
		if c := project[i]; !isLetter(c) && !isDigit(c) && !strings.ContainsRune("-_.:", rune(c)) {
			return status.Errorf(codes.InvalidArgument,
				"invalid project %s: it may hold only letters, digits and - _ . :", clip(project))
		}
	}
	return nil
}

// checkParent checks the projects/{project} of a list request.
func checkParent(name string) error {
	project, ok := strings.CutPrefix(name, "projects/")
	if !ok {
		return status.Errorf(codes.InvalidArgument, "invalid project name %s: want projects/{project}", clip(name))
	}
	return checkProject(project)
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// clip quotes what a client sent, cut to a length that suits an error message.
func clip(s string) string {
	const longest = 300
	if len(s) > longest {
		s = s[:longest] + "..."
	}
	return `"` + strings.ToValidUTF8(s, "?") + `"`
}

func errNotFound(name string) error {
	return status.Errorf(codes.NotFound, "Resource not found (resource=%s).", clip(name))
}

// errMissing is the error for a name that nothing has. A name that is only looked up
// is checked here and not before: each pull and ack does that, and what exists has a
// valid name.
func errMissing(name, collection string) error {
	return cmp.Or(checkName(name, collection), errNotFound(name))
}

// errDetached is the error of what needs the messages of a detached subscription.
func errDetached(name string) error {
	return status.Errorf(codes.FailedPrecondition, "Subscription is detached (resource=%s).", clip(name))
}

func errExists(name string) error {
	return status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", clip(name))
}
