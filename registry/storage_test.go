package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/seal"
	"github.com/wakecall/wakecall/test/dbtest"
)

func secretKey(b byte) seal.Key { return bytes.Repeat([]byte{b}, seal.KeySize) }

type mailSettings struct {
	Host     string    `json:"host"`
	Port     int       `json:"port"`
	Password seal.Text `json:"password"`
	To       []string  `json:"to"`
}

func TestSettingsAreKeptWithTheirSecretsEncrypted(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		file := filepath.Join(t.TempDir(), "snapshot.json")
		r := open(t, Options{DSN: dsn, SecretKey: secretKey(1), SnapshotFile: file})
		in := mailSettings{Host: "mail", Port: 587, Password: "hunter22", To: []string{"a@b.example"}}
		for range 2 {
			if err := r.PutSetting(t.Context(), "me", "smtp", in); err != nil {
				t.Fatal(err)
			}
		}
		var out mailSettings
		if found, err := r.Snapshot().Setting("smtp", &out); err != nil || !found || fmt.Sprintf("%#v", out.To) != fmt.Sprintf("%#v", in.To) || out.Password != in.Password {
			t.Errorf("it came back as %+v: %v, %v", out, found, err)
		}
		if found, err := r.Snapshot().Setting("other", &out); found || err != nil {
			t.Errorf("one that is not there: %v, %v", found, err)
		}
		entries, err := r.Audit(t.Context(), AuditFilter{Object: "setting/smtp"})
		if err != nil || len(entries) != 1 || !strings.Contains(string(entries[0].After), "***") {
			t.Errorf("the audit trail has %v, %v", entries, err)
		}
		eventually(t, "the snapshot is on disk", func() bool {
			b, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(b), "smtp")
		})
		b, _ := os.ReadFile(file)
		all, _ := json.Marshal(entries)
		if strings.Contains(string(b)+string(all), "hunter22") || strings.Contains(fmt.Sprintf("%v %+v %#v", in, in, in), "hunter22") {
			t.Error("the password can be read")
		}
		foreign := open(t, Options{DSN: dsn, SecretKey: secretKey(2)})
		if _, err := foreign.Snapshot().Setting("smtp", &out); !errors.Is(err, seal.ErrKey) {
			t.Errorf("read with another key: %v", err)
		}
		if err := open(t, Options{DSN: dsn}).PutSetting(t.Context(), "me", "smtp", in); !errors.Is(err, seal.ErrKey) {
			t.Errorf("stored without a key: %v", err)
		}
		kept, err := readSnapshot(file)
		if err != nil {
			t.Fatal(err)
		}
		kept.key = secretKey(1)
		if _, err := kept.Setting("smtp", &out); err != nil || out.Password != "hunter22" {
			t.Errorf("from the file: %v", err)
		}
	})
}

func TestSecondFactorsGoWithTheirUsers(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn, SecretKey: secretKey(1)})
		ctx := t.Context()
		if err := r.SetTOTP(ctx, "me", "ann", "ABC"); !errors.Is(err, ErrNoUser) {
			t.Errorf("of nobody: %v", err)
		}
		for _, name := range []string{"root", "ann"} {
			if err := r.CreateUser(ctx, "me", name, "long enough", RoleAdmin); err != nil {
				t.Fatal(err)
			}
		}
		want := func(secret string) {
			t.Helper()
			if got, err := r.TOTPSecret(ctx, "ann"); err != nil || got != secret {
				t.Errorf("the secret is %q, want %q: %v", got, secret, err)
			}
		}
		want("")
		for _, secret := range []string{"ABC", "DEF"} {
			if err := r.SetTOTP(ctx, "me", "ann", secret); err != nil {
				t.Fatal(err)
			}
			want(secret)
		}
		if err := r.ClearTOTP(ctx, "me", "ann"); err != nil {
			t.Fatal(err)
		}
		want("")
		if err := errors.Join(r.SetTOTP(ctx, "me", "ann", "GHI"), r.DeleteUser(ctx, "me", "ann"), r.CreateUser(ctx, "me", "ann", "long enough", RoleViewer)); err != nil {
			t.Fatal(err)
		}
		want("") // a new user of the name does not inherit it
	})
}

func TestSessionsEnd(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		s := open(t, Options{DSN: dsn}).Sessions()
		ctx, later := t.Context(), time.Now().Add(time.Hour)
		if err := errors.Join(s.Create(ctx, "a", []byte("2"), later), s.Create(ctx, "b", []byte("3"), time.Now().Add(-time.Second))); err != nil {
			t.Fatal(err)
		}
		if data, found, err := s.Find(ctx, "a"); err != nil || !found || string(data) != "2" {
			t.Errorf("a is %q, %v, %v", data, found, err)
		}
		if _, found, err := s.Find(ctx, "b"); err != nil || found {
			t.Errorf("an expired one: %v, %v", found, err)
		}
		if all, err := s.All(ctx); err != nil || len(all) != 1 {
			t.Errorf("all are %v, %v", all, err)
		}
		if found, err := s.Delete(ctx, "a"); err != nil || !found {
			t.Fatalf("%v, %v", found, err)
		}
		if found, err := s.Delete(ctx, "a"); err != nil || found {
			t.Errorf("ending it again: %v, %v", found, err)
		}
		if _, found, _ := s.Find(ctx, "a"); found {
			t.Error("it was ended and is there")
		}
	})
}

// TestAnEndedSessionStaysEnded: a request that was under way when somebody ended its session must not bring it back.
func TestAnEndedSessionStaysEnded(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		s := open(t, Options{DSN: dsn}).Sessions()
		ctx, later := t.Context(), time.Now().Add(time.Hour)
		if err := s.Create(ctx, "a", []byte("1"), later); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(ctx, "a", []byte("2"), later); err == nil {
			t.Error("a session was created over another")
		}
		for range 2 { // the second changes nothing
			if found, err := s.Update(ctx, "a", []byte("3"), later); err != nil || !found {
				t.Errorf("update: %v, %v", found, err)
			}
		}
		if data, found, err := s.Find(ctx, "a"); err != nil || !found || string(data) != "3" {
			t.Errorf("a is %q, %v, %v", data, found, err)
		}
		if _, err := s.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if found, err := s.Update(ctx, "a", []byte("4"), later); err != nil || found {
			t.Errorf("update of an ended session: %v, %v", found, err)
		}
		if _, found, err := s.Find(ctx, "a"); err != nil || found {
			t.Errorf("an ended session came back: %v, %v", found, err)
		}
	})
}

func TestTasksGoOn(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		ctx := t.Context()
		id, err := r.CreateTask(ctx, Task{Kind: "redrive", Params: json.RawMessage(`{"topic":"t"}`), State: "queued", Actor: "user/ann"})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.CancelTask(ctx, "user/bob", id), r.UpdateTask(ctx, Task{ID: id, State: "running", Done: 3, Total: 10, Errors: 1})); err != nil {
			t.Fatal(err)
		}
		got, err := r.GetTask(ctx, id)
		if err != nil || got.Done != 3 || got.Errors != 1 || !got.CancelRequested || got.Actor != "user/ann" {
			t.Errorf("%+v, %v", got, err)
		}
		if list, err := r.ListTasks(ctx, 10); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := r.GetTask(ctx, id+1); !errors.Is(err, ErrNoTask) {
			t.Errorf("one that is not there: %v", err)
		}
	})
}

func TestAPauseHasAReason(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		ctx := t.Context()
		if err := r.SetPauseReason(ctx, "ann", "shop.close", "x"); !errors.Is(err, ErrNoTopic) {
			t.Errorf("of no topic: %v", err)
		}
		x := topic("shop.close")
		x.Secrets = []string{oneSecret}
		x.State = TopicPaused
		put(t, r, x)
		rotated := r.Snapshot().Notes["shop.close"].SecretsChangedAt
		if time.Since(rotated) > time.Minute {
			t.Errorf("the secret changed at %s", rotated)
		}
		if err := r.SetPauseReason(ctx, "ann", "shop.close", "the bank is closed"); err != nil {
			t.Fatal(err)
		}
		if n := r.Snapshot().Notes["shop.close"]; n.PauseReason != "the bank is closed" || n.PausedBy != "ann" || !n.SecretsChangedAt.Equal(rotated) {
			t.Errorf("the note is %+v", n)
		}
		x.State, x.Secrets = TopicActive, nil
		put(t, r, x)
		if n := r.Snapshot().Notes["shop.close"]; n.PauseReason != "" || !n.PausedAt.IsZero() || !n.SecretsChangedAt.Equal(rotated) {
			t.Errorf("after it went on the note is %+v", n)
		}
	})
}
