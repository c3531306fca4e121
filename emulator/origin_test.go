package emulator

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

func TestE09WebPagesOfOthersAreRefused(t *testing.T) {
	const loopback, network = "127.0.0.1:8085", "192.0.2.7:8085"
	tests := []struct {
		name, at, host, header string
		refused                bool
	}{
		{"a program", loopback, "127.0.0.1:8085", "", false},
		{"by name", loopback, "localhost:8085", "", false},
		{"by a name under localhost", loopback, "pubsub.LOCALHOST.", "", false},
		{"by IPv6", "[::1]:8085", "[::1]:8085", "", false},
		{"by IPv6 without a port", "[::ffff:127.0.0.1]:8085", "[::1]", "", false},
		{"through a forwarded port", loopback, "192.0.2.7:80", "", false},
		{"without a host", loopback, "", "", false},
		{"by a service's name, not on loopback", network, "emulator:8085", "", false},
		{"a name that was made to lead to loopback", loopback, "evil.example:8085", "", true},
		{"the same without a port", loopback, "evil.example", "", true},
		{"the same over IPv6", "[::1]:8085", "evil.example:8085", "", true},
		{"a name that ends like localhost", loopback, "evillocalhost:8085", "", true},
		{"a page", loopback, "localhost:8085", "Origin: https://evil.example", true},
		{"a page on another port", loopback, "localhost:8085", "Origin: http://localhost:3000", true},
		{"a page in a sandbox", loopback, "localhost:8085", "Origin: null", true},
		{"a page, not on loopback", network, "emulator:8085", "Origin: https://evil.example", true},
		{"a link or an image in a page", loopback, "localhost:8085", "Sec-Fetch-Site: cross-site", true},
		{"a page of its own", loopback, "localhost:8085", "Origin: http://localhost:8085", false},
		{"the address bar", loopback, "localhost:8085", "Sec-Fetch-Site: none", false},
	}
	for _, tt := range tests {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(method+" by "+tt.name, func(t *testing.T) {
				at, err := net.ResolveTCPAddr("tcp", tt.at)
				must(t, err)
				r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(at)), method, "/", nil)
				r.Host = tt.host
				if name, value, ok := strings.Cut(tt.header, ": "); ok {
					r.Header.Set(name, value)
				}
				if why := crossOriginReason(r); (why != "") != tt.refused {
					t.Errorf("refused because %q, want %t", why, tt.refused)
				}
			})
		}
	}
}

func TestE09PageCannotSeekAQueueAwayAndCurlCan(t *testing.T) {
	s, addr := start(t)
	topics, _ := clients(t, addr)
	publishOne(t, topics, "a")
	url := "http://" + addr + "/v1/" + testSub + ":seek"
	curl := func(args ...string) string {
		t.Helper()
		args = append([]string{"-sS", "-o", "/dev/null", "-w", "%{http_code}", "-d", `{"time":"2100-01-01T00:00:00Z"}`, url}, args...)
		out, err := exec.CommandContext(t.Context(), "curl", args...).Output()
		must(t, err)
		return string(out)
	}
	for _, header := range []string{"Origin: https://evil.example", "Host: evil.example"} {
		if code := curl("-H", header); code != "403" || s.Stats()[0].Undelivered != 1 {
			t.Fatalf("with %q: status %s, %+v", header, code, s.Stats()[0])
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/stats", http.NoBody)
	must(t, err)
	req.Host = "evil.example"
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("statistics: status %d, want 403", resp.StatusCode)
	}
	// Without a content type, and with the one that curl makes up.
	for _, header := range []string{"Content-Type:", "X-Nothing: 1"} {
		if code := curl("-H", header); code != "200" {
			t.Errorf("with %q: status %s, want 200", header, code)
		}
	}
	if n := s.Stats()[0].Undelivered; n != 0 {
		t.Errorf("%d messages after the seek", n)
	}
}

func TestE09SubscriptionsShowAnEmptyPushConfig(t *testing.T) {
	lives(t, func(t *testing.T, b *broker) {
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		addSub(t, b, testSub, testTopic, &pubsubpb.Subscription{})
		sub, err := b.subscriptionFor(testSub)
		must(t, err)
		if sub.pb.GetPushConfig() == nil {
			t.Error("a subscription has no push configuration")
		}
		// One of an older server.
		old := &pubsubpb.Subscription{Name: testSub + "-old", Topic: testTopic}
		must(t, setSubscriptionDefaults(old))
		old.PushConfig = nil
		must(t, b.createSubscription(old))
	}, func(t *testing.T, b *broker) {
		for _, name := range []string{testSub, testSub + "-old"} {
			sub, err := b.subscriptionFor(name)
			must(t, err)
			if sub.pb.GetPushConfig() == nil {
				t.Errorf("%s has no push configuration after a restart", name)
			}
		}
	})
	_, addr := start(t)
	if a := mustGet(t, http.StatusOK, http.MethodGet, "http://"+addr+"/v1/"+testSub, ""); !strings.Contains(a.text, `"pushConfig": {}`) {
		t.Errorf("REST shows %s", a.text)
	}
}
