package program_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestK08EveryExitCodeAndSignalIsTold(t *testing.T) {
	r := open(t, `
case $1 in
exit) exit "$2";;
signal) kill -"$2" $$;;
child) sh -c 'kill -'"$2"' $$';;
esac`, "retries = 1\nretry_exit = [3]\nfinal_exit = [4, 255]\n[k.params.how]\ntype = \"string\"\n[k.params.n]\ntype = \"integer\"\n", "{params.how}", "{params.n}")
	fails := func(how string, n int) *jobs.Failure {
		t.Helper()
		params, _ := json.Marshal(map[string]any{"how": how, "n": n})
		return r.fails(jobs.Job{ID: "j", Payload: string(params)}, 1, 1) // the one retry is over
	}
	codes := []int{1, 2, 3, 4, 63, 64, 65, 66, 74, 75, 76, 77, 78, 99, 100, 124, 125, 126, 127, 128, 129, 130, 137, 139, 143, 254, 255}
	for _, code := range codes {
		f := fails("exit", code)
		again, final := code == 75 || code == 3, code == 65 || code == 4 || code == 255
		if f.Code != "PROGRAM_FAILED" || f.Error() != fmt.Sprintf("exit %d", code) || f.Retry != again || f.Final != final {
			t.Errorf("exit %d: %s %q, retry %t, final %t", code, f.Code, f, f.Retry, f.Final)
		}
	}
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGKILL,
		syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGSYS, 34, 64,
	} {
		want := fmt.Sprintf("signal %d (", s)
		if f := fails("signal", int(s)); f.Code != "PROGRAM_FAILED" || !strings.HasPrefix(f.Error(), want) || f.Retry || f.Final {
			t.Errorf("%s: %s %q, retry %t, final %t; want %q", s, f.Code, f, f.Retry, f.Final, want)
		}
		// The shell tells the end of its child as it likes, and ends itself with a code above 128.
		if f := fails("child", int(s)); f.Code != "PROGRAM_FAILED" || !strings.HasPrefix(f.Error(), fmt.Sprintf("exit %d", 128+int(s))) {
			t.Errorf("%s of a child: %s %q", s, f.Code, f)
		}
	}
}
