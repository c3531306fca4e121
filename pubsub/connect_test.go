package pubsub

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
)

// A service that was away for long is found again within seconds after it is back.
func TestPubSubThatIsAwayIsLookedForAllTheTime(t *testing.T) {
	for name, host := range map[string]string{"emulator": "127.0.0.1:1", "Google's": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts, err := Options(host)
				if err != nil {
					t.Fatal(err)
				}
				var mu sync.Mutex
				var last, longest time.Duration
				begun, tries := time.Now(), 0
				refuse := func(context.Context, string) (net.Conn, error) {
					mu.Lock()
					defer mu.Unlock()
					now := time.Since(begun)
					longest, last = max(longest, now-last), now
					tries++
					return nil, syscall.ECONNREFUSED
				}
				opts = append(opts, option.WithEndpoint("127.0.0.1:1"), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithContextDialer(refuse)))
				p, err := OpenPublisher(t.Context(), topicName, Rules{}, opts...)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				for time.Since(begun) < 10*time.Minute {
					_, _ = p.client.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: topicName})
					time.Sleep(100 * time.Millisecond)
				}
				mu.Lock()
				defer mu.Unlock()
				if longest > 3*time.Second || tries > 600 {
					t.Errorf("%d tries in 10 minutes, once none for %s", tries, longest)
				}
			})
		})
	}
}
