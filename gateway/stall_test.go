package gateway

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAnAnswerEndsWhenNobodyReadsIt, and not while the client reads, however slowly.
func TestAnAnswerEndsWhenNobodyReadsIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const timeout = time.Second
	stalls := stallListener{l, timeout}
	defer stalls.Close()
	answer := []byte(strings.Repeat("x", 16<<20)) // more than the buffers of a connection
	for _, reads := range []bool{false, true} {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		conn, err := stalls.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		read := make(chan int64)
		go func() {
			var n int64
			for reads && n < int64(len(answer)) {
				some, err := io.CopyN(io.Discard, client, 1<<20)
				if n += some; err != nil {
					break
				}
				time.Sleep(timeout / 20)
			}
			read <- n
		}()
		n, err := conn.Write(answer)
		switch {
		case !reads && !errors.Is(err, os.ErrDeadlineExceeded):
			t.Errorf("without a reader: wrote %d bytes, %v", n, err)
		case reads && (err != nil || n != len(answer)):
			t.Errorf("with a slow reader: wrote %d bytes, %v", n, err)
		}
		if got := <-read; reads && got != int64(len(answer)) {
			t.Errorf("a slow reader got %d bytes", got)
		}
	}
}
