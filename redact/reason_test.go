package redact

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestF32SecretsStayOutOfReasons(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing to hide", "page 3: bad stream", "page 3: bad stream"},
		{"password in a URL", "dial redis://user:hunter2@host:6379/0", "dial redis://[redacted]@host:6379/0"},
		{"password with an @", "dial redis://user:hun@ter2@host", "dial redis://[redacted]@host"},
		{"password with a slash", "dial redis://:hun/ter2@host", "dial redis://[redacted]@host"},
		{"two URLs", "http://a:b@c http://d:e@f", "http://[redacted]@c http://[redacted]@f"},
		{"URL without a password", "get https://host/a/b?c=d", "get https://host/a/b?c=d"},
		{"object name with an @", "open gs://bucket/a@b.pdf", "open gs://bucket/a@b.pdf"},
		{"bearer header", "Authorization: Bearer abcdefghijkl", "Authorization: Bearer [redacted]"},
		{"short basic header", "Authorization: Basic YTpi", "Authorization: Basic [redacted]"},
		{"bearer alone", "sent bearer abcdefghijkl", "sent bearer [redacted]"},
		{"query", "get /x?token=abc&page=2", "get /x?token=[redacted]&page=2"},
		{"signed URL", "GET https://s/o?X-Goog-Credential=me&X-Goog-Signature=0a1b", "GET https://s/o?X-Goog-Credential=[redacted]&X-Goog-Signature=[redacted]"},
		{"environment", "REDIS_PASSWORD=hunter2 exited", "REDIS_PASSWORD=[redacted] exited"},
		{"quoted with blanks", `password="hun ter 2" x`, `password="[redacted]" x`},
		{"single quotes with blanks", `password='hun ter 2' x`, `password='[redacted]' x`},
		{"JSON", `{"api_key": "hunter2", "a": 1}`, `{"api_key": "[redacted]", "a": 1}`},
		{"JSON with an escaped quote", `{"secret":"hun\"ter2"}`, `{"secret":"[redacted]"}`},
		{"JSON inside of a quoted string", `"{\"password\":\"hunter2\",\"a\":1}"`, `"{\"password\":\"[redacted]\",\"a\":1}"`},
		{"private key", `"private_key": "-----BEGIN KEY-----\nhunter2\n"`, `"private_key": "[redacted]`},
		{"AWS key", "AWS_SECRET_ACCESS_KEY: hunter2", "AWS_SECRET_ACCESS_KEY: [redacted]"},
		{"upper case", "PASSWORD: hunter2", "PASSWORD: [redacted]"},
		{"code that names a secret", "INVALID_ENROLL_TOKEN: this is used up", "INVALID_ENROLL_TOKEN: this is used up"},
		{"quote that never ends", `token="hunter2`, `token="[redacted]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Reason(tt.in); got != tt.want {
				t.Errorf("Reason(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestF32RedactedReasonsStayAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9]{9,20}zq`).Draw(t, "secret")
		form := rapid.SampledFrom([]string{
			"http://u:%@h/p", "token=%", `"password":"%"`, "bearer %", `x_secret: '%'`, `\"api-key\":\"%\"`,
		}).Draw(t, "form")
		words := rapid.StringMatching(`[a-z ]{0,20}`)
		in := words.Draw(t, "before") + " " + strings.Replace(form, "%", secret, 1) + " " + words.Draw(t, "after")
		once := Reason(in)
		if strings.Contains(once, secret) {
			t.Errorf("Reason(%q) = %q shows the secret", in, once)
		}
		if twice := Reason(once); twice != once {
			t.Errorf("redacting %q again gives %q", once, twice)
		}
	})
}

func TestRedactTakesTimeInProportion(t *testing.T) {
	for _, unit := range []string{"a://", "password", "token=", `\"`, "://x:y", "bearer "} {
		began := time.Now()
		Reason(strings.Repeat(unit, 128<<10/len(unit)))
		if took := time.Since(began); took > time.Minute {
			t.Errorf("128 KiB of %q took %s", unit, took)
		}
	}
}
