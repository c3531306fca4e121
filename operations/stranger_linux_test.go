package operations

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// stranger is a user who owns nothing, and to whom the modes of files apply.
const stranger = 65534

// asStranger reports whether the test shall go on: it is not run by root, whom no
// mode stops. For root it runs the test again, in a process that is a stranger.
func asStranger(t *testing.T) bool {
	t.Helper()
	const env = "OPERATIONS_TEST_STRANGER"
	if os.Getuid() != 0 {
		return true
	}
	if os.Getenv(env) != "" {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(stranger), syscall.Setuid(stranger)); err != nil {
			t.Fatal(err)
		}
		return true
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err := errors.Join(err, os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), env+"=1", "TMPDIR="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("as a stranger: %v\n%s", err, out)
	}
	return false
}
