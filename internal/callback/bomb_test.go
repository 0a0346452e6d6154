package callback

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestAnswersThatGrowCostNoMemory: 256 calls at once whose answers are ten gigabytes, a gzip bomb, ten megabytes of
// headers, or endless 1xx responses. The resident memory (RSS) hardly grows, and a gzip bomb is not decompressed.
func TestAnswersThatGrowCostNoMemory(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 32 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	chunk := strings.Repeat("x", 32<<10)
	header := "X-A: " + strings.Repeat("b", 8000) + "\r\n"
	answers := []struct{ head, again string }{
		{"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", chunk},
		{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", chunk},
		{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(bomb.Len()) + "\r\n\r\n" +
			bomb.String(), ""},
		{"HTTP/1.1 200 OK\r\n", header},
		{"", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"},
	}
	c := caller(t, Options{})
	const atOnce = 256
	run := func() {
		var wg sync.WaitGroup
		for i, a := range answers {
			url, _ := raw(t, func(_ int, conn net.Conn) {
				readRequest(conn)
				_, err := io.WriteString(conn, a.head)
				for err == nil && a.again != "" {
					_, err = io.WriteString(conn, a.again)
				}
			})
			e := endpoint(t, EndpointSpec{URL: url})
			for range atOnce / len(answers) {
				wg.Go(func() {
					o := c.Do(t.Context(), e, job())
					if len(o.Answer) > maxAnswer || (i >= 3 && o.Class != Failure) ||
						(i == 2 && o.Class == Success && !bytes.Equal(o.Answer, bomb.Bytes())) {
						t.Errorf("answer %d: class %v, %d bytes", i, o.Class, len(o.Answer))
					}
				})
			}
		}
		wg.Wait()
	}
	// Connections, stacks and heap for so many calls need memory at some point; growth in every round is a leak.
	for round := 0; ; round++ {
		before := rss(t)
		for range 3 {
			run()
		}
		grown := rss(t) - before
		if grown <= 20<<20 {
			return
		}
		if round == 4 {
			t.Fatalf("the process has grown by %d MiB and keeps growing", grown>>20)
		}
	}
}

func rss(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
