package queue

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// testdata/places-0.redis was written by a version whose ids encode the place of the record. It has jobs in every
// state, due in 2025, so they are in the past wherever the test runs.
const placesFile = "testdata/places-0.redis"

var placesStates = map[string]State{"far": Delayed, "ready": Ready, "running": Running, "retrying": Delayed,
	"dead": Dead, "changed": Delayed}

var placesIDs = map[string]string{
	"retrying": "p000000000g0s6g2wvbqg",
	"dead":     "p00000000100tvdry4zh0",
	"running":  "p000000001g0terbd5r8g",
	"ready":    "p00000000200t8t3c9760",
	"changed":  "p000000002g0v0vyv5hcg",
	"far":      "p000000003018kyetddb0",
}

func placesPush(name string) Push {
	p := Push{Topic: fixtureTopic, DueAt: farAway, Priority: Normal, Body: []byte(name + ";"), TTR: 9 * time.Second,
		MaxAttempts: 6, ContentType: "text/plain"}
	if name == "far" || name == "retrying" {
		p.Body = append(p.Body, strings.Repeat("long ", 300)...)
	}
	if name == "changed" {
		p.Priority = Low
	}
	return p
}

func nameOfPlaced(j *Job) string {
	name, _, _ := strings.Cut(string(j.Body), ";")
	return name
}

func TestStoredPlacesAreFoundAndListed(t *testing.T) {
	f := newStored(t, placesFile)
	for name, id := range placesIDs {
		j, p := f.get(fixtureTopic, id), placesPush(name)
		p.ID = id
		if f.same(j, p); j.State != placesStates[name] {
			t.Errorf("%s is %s", name, j.State)
		}
	}
	listed := 0
	for _, state := range []State{Delayed, Ready, Running, Dead} {
		jobs, _, err := f.q.List(f.ctx, fixtureTopic, state, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if name := nameOfPlaced(&j); name != "" && j.ID != placesIDs[name] { // lists omit long bodies
				t.Errorf("%s is listed as %+v", name, j)
			}
			listed++
		}
	}
	if listed != len(placesStates) || len(placesIDs) != listed {
		t.Errorf("%d jobs are listed", listed)
	}
}

func TestStoredPlacesAreDelivered(t *testing.T) {
	f := newStored(t, placesFile)
	for _, name := range []string{"far", "retrying", "dead", "changed"} {
		if j, err := f.q.RunNow(f.ctx, fixtureTopic, placesIDs[name]); err != nil || j.ID != placesIDs[name] ||
			j.State != Ready {
			t.Fatalf("run %s: %+v, %v", name, j, err)
		}
	}
	leases := f.deliverAll()
	for name, id := range placesIDs {
		l, p := leases[id], placesPush(name)
		if l == nil {
			t.Errorf("%s was not delivered", name)
			continue
		}
		p.ID = id
		f.same(&l.Job, p)
		f.gone(fixtureTopic, id)
	}
	f.stats(fixtureTopic, 0, 0, 0, 0)
	f.clean()
}

func TestStoredPlacesAreDeleted(t *testing.T) {
	f := newStored(t, placesFile)
	for name, id := range placesIDs {
		if err := f.q.Delete(f.ctx, fixtureTopic, id); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
		f.gone(fixtureTopic, id)
	}
	f.stats(fixtureTopic, 0, 0, 0, 0)
	for f.advance().More {
	}
	f.reserve(10)
	f.clean()
}

// TestANewerRecordWhoseIDNamesItsPlaceWaits although it has no locator.
func TestANewerRecordWhoseIDNamesItsPlaceWaits(t *testing.T) {
	f := newFixture(t)
	id := f.pushPlaced("t", time.Hour)
	key := f.s.client.Keys(f.ctx, prefix(0)+"p:*").Val()[0]
	rec := f.s.client.LIndex(f.ctx, key, 1).Val()
	newer := rec[:12] + string([]byte{rec[12] | 3<<5}) + rec[13:14+nonceLen] + "ÿwhat this version cannot read"
	f.s.client.LSet(f.ctx, key, 1, newer)
	if err := openPages(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	if ls := f.reserve(10); len(ls) != 0 {
		t.Fatalf("reserved %+v", ls)
	}
	f.stats("t", 1, 0, 0, 0)
	if _, err := f.q.Get(f.ctx, "t", id); !errors.Is(err, ErrNewer) {
		t.Fatal(err)
	}
	if err := f.q.Delete(f.ctx, "t", id); err != nil {
		t.Fatal(err)
	}
	f.advance()
	f.clean()
}
