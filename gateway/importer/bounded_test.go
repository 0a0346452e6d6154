package importer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// replying is a server that replies with a text to LRANGE.
func replying(t *testing.T, text string) *redis.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for in := bufio.NewScanner(c); in.Scan() && in.Text() != "LRANGE"; {
				if strings.EqualFold(in.Text(), "HELLO") {
					_, _ = io.WriteString(c, "-ERR unknown command\r\n")
				}
			}
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	db := NewClient(&redis.Options{Addr: l.Addr().String(), MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = db.Close(); _ = l.Close(); <-ended })
	return db
}

// TestAHostileRedisTakesBoundedMemory: a reply may announce more than it sends.
func TestAHostileRedisTakesBoundedMemory(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an endless line": "+" + strings.Repeat("x", 8<<20),
		"a value":         "$2147483647\r\n",
		"a padded length": "$" + strings.Repeat("0", 40) + "2147483647\r\n",
		"a list":          "*2147483647\r\n",
		"lists in lists":  strings.Repeat("*1000000\r\n", 100),
		"a map":           "*1\r\n%900000000\r\n",
		"many values":     "*3\r\n$1\r\nx\r\n$536870912\r\n",
	} {
		_, err := replying(t, text).Do(t.Context(), "LRANGE", "x").Result()
		if err == nil || !strings.Contains(err.Error(), "MiB: is it the right address?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"$5\r\nhello\r\n", "*2\r\n$-1\r\n:7\r\n", "*1\r\n$13\r\n*2147483647\r\n\r\n", ":9\r\n"} {
		if _, err := replying(t, text).Do(t.Context(), "LRANGE", "x").Result(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestABoundIsOneReplys, however it is cut into reads, and begins anew with each request.
func TestABoundIsOneReplys(t *testing.T) {
	t.Parallel()
	c := &boundedConn{Conn: &net.TCPConn{}}
	half := fmt.Sprintf("$%d\r\n", MaxReply/2)
	for range 4 {
		_, _ = c.Write(nil)
		for _, b := range []byte(half) {
			c.scan([]byte{b})
		}
		if c.skip != MaxReply/2+2 || c.err != nil {
			t.Fatalf("%d bytes are to come, %v", c.skip, c.err)
		}
		c.skip = 0
	}
	if c.scan([]byte(half)); c.err == nil {
		t.Error("a second half and its line are not refused")
	}
}
