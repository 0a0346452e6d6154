package alert

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/smtptest"
)

// conversation records what a scripted SMTP server received in one connection.
type conversation struct {
	lines chan []string
	port  int
}

// converses starts a server that offers extensions and sends some scripted answers; otherwise it answers 250.
func converses(t *testing.T, offers []string, answers map[string]string) *conversation {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &conversation{make(chan []string, 1), l.Addr().(*net.TCPAddr).Port}
	go func() {
		var told []string
		defer func() { s.lines <- told }()
		c, err := l.Accept()
		_ = l.Close()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "220 test.example\r\n")
		in := bufio.NewScanner(c)
		for data := false; in.Scan(); {
			line := in.Text()
			if data && line != "." {
				continue
			}
			told = append(told, line)
			answer, ok := answers[line]
			switch {
			case ok:
			case line == "DATA":
				data, answer = true, "354 go on"
			case strings.HasPrefix(line, "EHLO"):
				answer = "250-test.example\r\n"
				for _, offer := range offers {
					answer += "250-" + offer + "\r\n"
				}
				answer += "250 8BITMIME"
			default:
				data, answer = false, "250 fine"
			}
			fmt.Fprint(c, answer+"\r\n")
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return s
}

func (s *conversation) mail() Mail {
	return Mail{
		Host: "127.0.0.1", Port: s.port, TLS: TLSNone, From: "Wakecall <w@test.example>", Username: "ops",
		Password: seal.Text("hush"),
	}
}

func text64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// TestALoginUsesAMechanismOfTheServer: some servers offer LOGIN alone, some nothing. An error of the server is shown
// without the password.
func TestALoginUsesAMechanismOfTheServer(t *testing.T) {
	t.Parallel()
	user, hush := text64("ops"), text64("hush")
	for name, x := range map[string]struct {
		offers  []string
		answers map[string]string
		want    []string // after EHLO, before MAIL
		says    string
	}{
		"LOGIN": {
			[]string{"AUTH LOGIN"}, map[string]string{
				"AUTH LOGIN": "334 " + text64("Username:"), user: "334 " + text64("Password:"), hush: "235 welcome",
			},
			[]string{"AUTH LOGIN", user, hush}, "",
		},
		"LOGIN, refused": {
			[]string{"AUTH LOGIN"}, map[string]string{
				"AUTH LOGIN": "334 " + text64("User Name"), user: "334 " + text64("Password"), hush: "535 no such user",
			},
			[]string{"AUTH LOGIN", user, hush}, "no such user",
		},
		"PLAIN before LOGIN": {
			[]string{"AUTH LOGIN PLAIN"}, map[string]string{"AUTH PLAIN " + text64("\x00ops\x00hush"): "235 welcome"},
			[]string{"AUTH PLAIN " + text64("\x00ops\x00hush")}, "",
		},
		"no login": {nil, nil, nil, ""},
	} {
		s := converses(t, x.offers, x.answers)
		err := SendMail(t.Context(), s.mail(), "ops@test.example", testMessage(t))
		if x.says == "" && err != nil || x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), hush)) {
			t.Errorf("%s reveals the password: %v", name, err)
		}
		told := <-s.lines
		told = slices.DeleteFunc(told, func(line string) bool { return line == "*" || strings.HasPrefix(line, "EHLO") })
		if x.says == "" {
			told = told[:max(0, slices.IndexFunc(
				told, func(line string) bool { return strings.HasPrefix(line, "MAIL") }))]
		}
		if strings.Join(told, "|") != strings.Join(x.want, "|") && x.says == "" {
			t.Errorf("%s: the server received %q, want %q", name, told, x.want)
		}
	}
}

// TestARefusalOfTheServerIsReported at every step, and ends the mail.
func TestARefusalOfTheServerIsReported(t *testing.T) {
	t.Parallel()
	for line, answer := range map[string]string{
		"MAIL FROM:<w@test.example> BODY=8BITMIME": "553 not your address",
		"RCPT TO:<ops@test.example>":               "550 no such mailbox", "DATA": "451 try later",
		".": "552 quota exceeded",
	} {
		s := converses(t, nil, map[string]string{line: answer})
		err := SendMail(t.Context(), s.mail(), "Ops <ops@test.example>", testMessage(t))
		if err == nil || !strings.Contains(err.Error(), answer[4:]) ||
			!strings.HasPrefix(err.Error(), "SMTP server 127.0.0.1:") {
			t.Errorf("%s answered with %s: %v", line, answer, err)
		}
	}
	m := converses(t, nil, nil).mail()
	m.TLS = TLSStart
	if err := SendMail(t.Context(), m, "ops@test.example", testMessage(t)); err == nil ||
		!strings.Contains(err.Error(), "does not offer STARTTLS") {
		t.Errorf("no STARTTLS: %v", err)
	}
	if err := SendMail(t.Context(), Mail{}, "ops@test.example", testMessage(t)); err == nil ||
		!strings.Contains(err.Error(), "no SMTP server set") {
		t.Errorf("no server: %v", err)
	}
}

// elsewhere is a connection to another machine.
type elsewhere struct{ net.Conn }

func (elsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 587} }

// TestThePasswordIsNotSentInClearText to another machine, whatever its name and the setting, by any mechanism that
// reveals it: an attacker in between may remove STARTTLS from the server's extensions.
func TestThePasswordIsNotSentInClearText(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"LOGIN", "PLAIN", "PLAIN LOGIN"} {
		for _, setting := range []string{TLSNone, TLSOpportunistic, TLSStart} {
			for _, host := range []string{"localhost", "127.0.0.1", "mail.example"} {
				s := converses(t, []string{"AUTH " + way}, map[string]string{"AUTH LOGIN": "334 " + text64("Username:")})
				m := s.mail()
				conn := dial(t, s.port)
				m.Host, m.TLS = host, setting
				err := m.converse(elsewhere{conn}, "ops@test.example", letter(m, "ops@test.example", testMessage(t)))
				_ = conn.Close()
				if lines := <-s.lines; err == nil || strings.Contains(strings.Join(lines, "|"), "AUTH") {
					t.Errorf("%s to %s, %s: %v; the server received %q", way, host, setting, err, lines)
				} else if setting != TLSStart && !strings.Contains(err.Error(), "set TLS to starttls or tls") {
					t.Errorf("%s: the error is %v", way, err)
				}
			}
		}
	}
}

// TestAServerOfThisMachineGetsThePassword by whatever name the settings call it.
func TestAServerOfThisMachineGetsThePassword(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t)
	s.WantLogin("ops", "hush")
	m := Mail{
		Host: "mail.example", TLS: TLSOpportunistic, From: "w@test.example", Username: "ops", Password: seal.Text("hush"),
	}
	err := m.converse(dial(t, s.Port), "ops@test.example", letter(m, "ops@test.example", testMessage(t)))
	if err != nil || len(s.Mails()) != 1 {
		t.Errorf("%v, %d mails", err, len(s.Mails()))
	}
}

// TestAMailIsSentUnderTheNameOfItsHost: servers refuse clients that say to be localhost.
func TestAMailIsSentUnderTheNameOfItsHost(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t)
	if err := SendMail(t.Context(), mailTo(s).Mail, "ops@test.example", testMessage(t)); err != nil {
		t.Fatal(err)
	}
	want := "[127.0.0.1]"
	if name, err := os.Hostname(); err == nil && strings.Contains(name, ".") {
		want = name
	}
	if got := s.Mails()[0].Client; got != want {
		t.Errorf("the client is %q, want %q", got, want)
	}
	for ip, want := range map[string]string{"192.0.2.7": "[192.0.2.7]", "2001:db8::7": "[IPv6:2001:db8::7]"} {
		got := ownName(&net.TCPAddr{IP: net.ParseIP(ip), Zone: ""})
		if got != want && !strings.Contains(got, ".") {
			t.Errorf("with the address %s: %q, want %q", ip, got, want)
		}
	}
}

func dial(t *testing.T, port int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
