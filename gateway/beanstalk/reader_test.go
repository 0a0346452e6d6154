package beanstalk

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/gateway"
)

// TestAHalfSentPutIsCut after a minute: it holds memory. A client that is silent between commands is not.
func TestAHalfSentPutIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		k := &conn{Gateway: &Gateway{maxBody: 100}, c: gateway.Conn{Conn: server}, ctx: t.Context(),
			body: make(chan struct{}, 1)}
		commands, ended := make(chan command, readAhead), make(chan struct{})
		go func() {
			k.read(commands)
			close(ended)
		}()
		send := func(text string) {
			t.Helper()
			if _, err := io.WriteString(client, text); err != nil {
				t.Fatal(err)
			}
		}
		send("stats\r\n")
		time.Sleep(24 * time.Hour)
		send("put 0 0 60 2\r\n")
		time.Sleep(bodyTimeout / 2)
		send("ab\r\n")
		time.Sleep(24 * time.Hour)
		send("put 0 0 60 10\r\nhalf")
		time.Sleep(bodyTimeout - time.Second)
		select {
		case <-ended:
			t.Error("cut before its time")
		default:
		}
		cut, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		select {
		case <-ended:
		case <-cut.Done():
			t.Error("not cut")
		}
		_, _ = client.Close(), server.Close()
		<-ended
		if n := len(commands); n != 2 {
			t.Errorf("%d commands were read", n)
		}
	})
}
