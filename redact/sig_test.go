package redact

import (
	"strings"
	"testing"
)

func TestR71SignaturesOfURLsAreHidden(t *testing.T) {
	const canary = "Zq%2FkN0dVf7m0wG1o2h9Jk5sT8uX3yL6aBcDeFgHiJkM%3D"
	for _, s := range []string{
		"PUT https://a.blob.core.windows.net/c/b?sv=2022-11-02&sr=b&sig=" + canary, "https://a.example/b?sig=" + canary + "&se=2031", `{"url":"https://a.example/b?sv=1\u0026sig=` + canary + `"}`,
		"https://a.example/b?Expires=1&Signature=" + canary + "&Key-Pair-Id=K", "https://a.example/b?X-Amz-Signature=" + canary, "https://a.example/b?X-Goog-Signature=" + canary,
	} {
		if got := Text(s); strings.Contains(got, canary[:8]) || strings.Contains(got, canary[len(canary)-10:]) || !strings.Contains(got, "https://a.") {
			t.Errorf("%s became %s", s, got)
		}
	}
	for _, s := range []string{"ended with sig=11", "sig=SIGTERM code=1", "config=0123456789abcdefghij.png"} {
		if got := Text(s); got != s {
			t.Errorf("%s became %s", s, got)
		}
	}
}
