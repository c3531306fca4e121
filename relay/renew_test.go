package relay

import (
	"net/http"
	"testing"
)

func TestR02TokensChangeWithoutAGap(t *testing.T) {
	const third = "00000000000000000000000000000000-third-canary"
	r := newRig(t)
	want := func(when string, accepted map[string]bool) {
		t.Helper()
		for token, is := range accepted {
			if resp := r.callAs(token, http.MethodGet, "/v1/status", ""); (resp.Status == http.StatusOK) != is {
				t.Errorf("%s: %s gets %d", when, token, resp.Status)
			}
		}
	}
	want("at the start", map[string]bool{testToken: true, nextToken: true, third: false})
	if err := r.RenewTokens([]string{nextToken, third}); err != nil {
		t.Fatal(err)
	}
	want("with other tokens", map[string]bool{testToken: false, nextToken: true, third: true})
	if r.token() != nextToken {
		t.Error("the orchestrator is not sent the first token")
	}
	for _, bad := range [][]string{nil, {""}, {nextToken, "short"}} {
		if err := r.RenewTokens(bad); err == nil {
			t.Errorf("%q were taken", bad)
		}
	}
	want("after tokens that are wrong", map[string]bool{nextToken: true, third: true})
}
