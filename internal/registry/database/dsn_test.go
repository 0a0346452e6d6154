package database

import (
	"maps"
	"strings"
	"testing"
)

// TestTimeoutsOfADSNWin over the defaults. The relay sets none: a pooler may refuse them.
func TestTimeoutsOfADSNWin(t *testing.T) {
	a, err := parseDSN("postgres://u:p%40s%25%2F%3A@h/db?statement_timeout=5s&timezone=Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"statement_timeout": "5s", "idle_in_transaction_session_timeout": "60s", "timezone": "UTC",
		"client_encoding": "UTF8", "datestyle": "ISO"}
	if !maps.Equal(a.postgres.RuntimeParams, want) || a.postgres.Password != "p@s%/:" {
		t.Errorf("%v, password %s", a.postgres.RuntimeParams, a.postgres.Password)
	}
	c, err := PostgresConfig("postgres://u@h/db")
	if err != nil || c.RuntimeParams["statement_timeout"] != "" {
		t.Errorf("%v, %v", c, err)
	}
	if patient := patientPostgres(a.postgres); patient.RuntimeParams["statement_timeout"] != "600000" ||
		a.postgres.RuntimeParams["statement_timeout"] != "5s" {
		t.Errorf("for a migration: %v", patient.RuntimeParams)
	}
}

// TestAPasswordIsPercentEncoded as in the URL of a Redis, or the error says how.
func TestAPasswordIsPercentEncoded(t *testing.T) {
	for user, want := range map[string]string{"u:p%40s%25%2F%3A": "u p@s%/:", "u%3Ax:a/b@c": "u:x a/b@c", "u:a+b": "u a+b"} {
		a, err := parseDSN("mysql://" + user + "@tcp(h:3306)/db")
		if err != nil || a.mysql.User+" "+a.mysql.Passwd != want {
			t.Errorf("%s: %v, want %s", user, err, want)
		}
	}
	if _, err := parseDSN("mysql://u:50%off@tcp(h:3306)/db"); err == nil || !strings.Contains(err.Error(), "%25") {
		t.Errorf("%v", err)
	}
}
