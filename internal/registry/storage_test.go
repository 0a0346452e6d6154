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

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/seal"
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
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		file := filepath.Join(t.TempDir(), "snapshot.json")
		r := open(t, Options{DSN: dsn, SecretKey: secretKey(1), SnapshotFile: file})
		in := mailSettings{Host: "mail", Port: 587, Password: "hunter22", To: []string{"a@b.example"}}
		for range 2 {
			if err := r.PutSetting(t.Context(), "me", "smtp", in); err != nil {
				t.Fatal(err)
			}
		}
		var out mailSettings
		if found, err := r.Snapshot().Setting("smtp", &out); err != nil || !found ||
			fmt.Sprintf("%#v", out.To) != fmt.Sprintf("%#v", in.To) ||
			out.Password != in.Password {
			t.Errorf("it was read as %+v: %v, %v", out, found, err)
		}
		if found, err := r.Snapshot().Setting("other", &out); found || err != nil {
			t.Errorf("a missing setting: %v, %v", found, err)
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
		if strings.Contains(string(b)+string(all), "hunter22") ||
			strings.Contains(fmt.Sprintf("%v %+v %#v", in, in, in), "hunter22") {
			t.Error("the password is printed")
		}
		noKey := open(t, Options{DSN: dsn, SecretKey: seal.Key{}})
		if err := noKey.PutSetting(t.Context(), "me", "smtp", in); !errors.Is(err, seal.ErrKey) {
			t.Errorf("stored without a key: %v", err)
		}
		kept, err := readSnapshot(file)
		if err != nil {
			t.Fatal(err)
		}
		kept.key = secretKey(2)
		if _, err := kept.Setting("smtp", &out); !errors.Is(err, seal.ErrKey) {
			t.Errorf("read with another key: %v", err)
		}
		kept.key = secretKey(1)
		if _, err := kept.Setting("smtp", &out); err != nil || out.Password != "hunter22" {
			t.Errorf("from the file: %v", err)
		}
	})
}

func TestAPauseHasAReason(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		ctx := t.Context()
		if err := r.SetPauseReason(ctx, "ann", "shop.close", "x"); !errors.Is(err, ErrNoTopic) {
			t.Errorf("of an unknown topic: %v", err)
		}
		x := topic("shop.close")
		x.Secrets = []string{oneSecret}
		x.State = TopicPaused
		put(t, r, x)
		rotated := r.Snapshot().Notes.Get("shop.close").SecretsChangedAt
		if time.Since(rotated) > time.Minute {
			t.Errorf("the secret changed at %s", rotated)
		}
		if n := r.Snapshot().Notes.Get("shop.close"); n.PausedBy != "me" || time.Since(n.PausedAt) > time.Minute {
			t.Errorf("before a reason is given, the note is %+v", n)
		}
		if err := r.SetPauseReason(ctx, "ann", "shop.close", "the bank is closed"); err != nil {
			t.Fatal(err)
		}
		if n := r.Snapshot().Notes.Get("shop.close"); n.PauseReason != "the bank is closed" || n.PausedBy != "ann" ||
			!n.SecretsChangedAt.Equal(rotated) {
			t.Errorf("the note is %+v", n)
		}
		x.State, x.Secrets = TopicActive, nil
		put(t, r, x)
		if n := r.Snapshot().Notes.Get("shop.close"); n.PauseReason != "" || !n.PausedAt.IsZero() ||
			!n.SecretsChangedAt.Equal(rotated) {
			t.Errorf("after it was resumed, the note is %+v", n)
		}
	})
}

// TestAChangeKeepsFieldsOfANewerVersion, which has stored them while hosts are upgraded one by one.
func TestAChangeKeepsFieldsOfANewerVersion(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		put(t, r, topic("shop.close"))
		const newer = `{"newer": {"a": [1, "}"]}, "name"`
		sql := func(run func(tx *gorm.DB) *gorm.DB) {
			t.Helper()
			if err := r.DB().Do(t.Context(), func(tx *gorm.DB) error { return run(tx).Error }); err != nil {
				t.Fatal(err)
			}
		}
		sql(func(tx *gorm.DB) *gorm.DB {
			return tx.Exec("UPDATE topics SET spec = REPLACE(spec, ?, ?)", `{"name"`, newer)
		})
		x := topic("shop.close")
		x.Title = "changed"
		put(t, r, x)
		var spec string
		sql(func(tx *gorm.DB) *gorm.DB { return tx.Raw("SELECT spec FROM topics").Scan(&spec) })
		if !strings.Contains(spec, `"newer":{"a": [1, "}"]}`) || !strings.Contains(spec, `"title":"changed"`) {
			t.Errorf("stored as %s", spec)
		}
	})
}
