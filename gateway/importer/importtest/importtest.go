// Package importtest helps test imports from Redis.
package importtest

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/test/harness"
)

// Redis returns an import's client of a new Redis.
func Redis(t *testing.T) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(harness.StartRedis(t, harness.RedisOptions{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	db := importer.Connect(o)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// IDs returns the ids of jobs, separated by spaces.
func IDs(jobs []importer.Job) string {
	var ids []string
	for _, job := range jobs {
		ids = append(ids, job.Push.ID)
	}
	return strings.Join(ids, " ")
}

// Drop drops the claims of jobs, one by one.
func Drop(t *testing.T, s importer.Source, jobs []importer.Job) {
	t.Helper()
	for _, job := range jobs {
		if err := s.Drop(t.Context(), []importer.Job{job}); err != nil {
			t.Fatal(err)
		}
	}
}
