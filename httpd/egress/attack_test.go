package egress

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// net/http hands the connection over with such an answer, and then no longer closes it when the context ends.
func TestR65AnotherProtocolThatIsSilentEndsTheCall(t *testing.T) {
	for name, limit := range map[string]int64{"the body is dropped": 0, "the body is kept": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := inMemory(t, func(c net.Conn) {
					readRequest(c)
					_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n")
					time.Sleep(time.Hour)
					_ = c.Close()
				})
				began := time.Now()
				got, err := c.Do(t.Context(), &Request{Method: http.MethodPost, URL: "https://hooks.example", Stall: time.Minute, ResponseLimit: limit})
				if err != nil || got.Status != http.StatusSwitchingProtocols || len(got.Body) > 0 {
					t.Errorf("got %+v, %v; want the status and no body", got, err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
