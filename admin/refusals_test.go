package admin

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A malformed request is answered with a page, without markup from the request, and without a reset of the connection.
func TestWhatIsRefusedBeforeAHandlerIsAPage(t *testing.T) {
	t.Parallel()
	addr := serving(t)
	for request, status := range map[string]int{
		"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n":                                                               400,
		"GET /login HTTP/1.1\r\n\r\n":                                                                        400,
		"GET /login HTTP/1.1\r\nHost: <script>\r\n\r\n":                                                      400,
		"<script>alert(1)</script>\r\n\r\n":                                                                  400,
		"POST /login HTTP/1.1\r\nHost: h\r\nExpect: cake\r\nContent-Length: 0\r\n\r\n":                       417,
		"POST /login HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: <b>\r\n\r\n":                                  501,
		"GET /login HTTP/1.1\r\nHost: h\r\nCookie: wk=" + strings.Repeat("x", 1<<20) + "\r\n\r\n":            431,
		"POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\nConnection: x\r\n\r\n": 400,
	} {
		c := dial(t, addr)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		go func() { _, _ = io.WriteString(c, request) }()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%.60q: %v", request, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.HasPrefix(string(body), "<!doctype html>") ||
			!strings.Contains(string(body), http.StatusText(status)) || strings.Contains(string(body), "<script>") ||
			resp.Header.Get("Content-Type") != "text/html; charset=utf-8" || resp.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%.60q: %d %v\n%s\n%v", request, resp.StatusCode, resp.Header, body, err)
		}
	}
}

// An unknown task is "not found", not an error.
func TestATaskThatDoesNotExistIsNotCanceled(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("ops")
	for _, id := range []string{"0", "9999", "x", "18446744073709551615"} {
		if status, _ := s.post("/tasks/" + id + "/cancel"); status != http.StatusNotFound {
			t.Errorf("canceling %s is %d", id, status)
		}
	}
}
