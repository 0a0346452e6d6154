package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/server"
)

// noJobs accepts every push and does nothing.
type noJobs struct{ server.Jobs }

func (noJobs) Push(_ context.Context, p store.Push) store.Result {
	now := time.Now()
	return store.Result{Job: store.Job{Topic: p.Topic, ID: p.ID, State: store.Delayed, Priority: p.Priority,
		CreatedAt: now, DueAt: now, NextAt: now}}
}

func (n noJobs) PushBatch(ctx context.Context, pushes []store.Push) []store.Result {
	results := make([]store.Result, len(pushes))
	for i := range pushes {
		results[i] = n.Push(ctx, pushes[i])
	}
	return results
}

const benchPush = `{"id":"order-000000000000000042","body":{"order":42,` +
	`"note":"sixty-four bytes of a body altogether!"},"delay":"30m"}`

func benchServer(b *testing.B) (http.Handler, string) {
	reg := newFakeRegistry()
	token := reg.grant("all", "*", registry.RightPush)
	s, err := server.New(server.Options{Jobs: noJobs{}, Workers: &fakeWorkers{}, Registry: reg})
	if err != nil {
		b.Fatal(err)
	}
	return s, token
}

// bareEcho is the baseline: it reads the body and answers with JSON.
func bareEcho() http.Handler {
	e := echo.New()
	e.POST("/v1/topics/:topic/jobs", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, map[string]any{"topic": c.Param("topic"), "bytes": len(body)})
	})
	return e
}

// hammer sends raw requests over kept connections, so that the client uses little CPU time.
func hammer(b *testing.B, h http.Handler, request string, status int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go srv.Serve(l) // closed below
	defer srv.Close()
	want := fmt.Sprintf("HTTP/1.1 %d", status)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for pb.Next() {
			if _, err := io.WriteString(conn, request); err != nil {
				b.Error(err)
				return
			}
			if err := skipResponse(in, want); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func skipResponse(in *bufio.Reader, want string) error {
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte(want)) {
			return fmt.Errorf("answered %q", line)
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(n))); err != nil {
				return err
			}
		}
		if len(line) <= 2 {
			_, err := in.Discard(length)
			return err
		}
	}
}

func request(path, token, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, token, len(body), body)
}

func BenchmarkPush(b *testing.B) {
	s, token := benchServer(b)
	hammer(b, s, request(orders, token, benchPush), 201)
}

func BenchmarkBareEcho(b *testing.B) {
	hammer(b, bareEcho(), request(orders, "wk_all", benchPush), 201)
}

func BenchmarkBatch100(b *testing.B) {
	s, token := benchServer(b)
	member := `{"topic":"shop.orders",` + benchPush[1:]
	hammer(b, s, request("/v1/jobs", token, `{"jobs":[`+strings.Repeat(member+",", 99)+member+`]}`), 200)
}

// discard is a ResponseWriter without a network.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header { return d.h }

func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

func (d *discard) WriteHeader(int) {}

func benchHandler(b *testing.B, h http.Handler, token string) {
	req, err := http.NewRequest(http.MethodPost, orders, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.ContentLength = int64(len(benchPush))
	b.ReportAllocs()
	for b.Loop() {
		req.Body = io.NopCloser(strings.NewReader(benchPush))
		h.ServeHTTP(&discard{http.Header{}}, req)
	}
}

func BenchmarkPushHandler(b *testing.B) {
	s, token := benchServer(b)
	benchHandler(b, s, token)
}

func BenchmarkBareEchoHandler(b *testing.B) { benchHandler(b, bareEcho(), "wk_all") }
