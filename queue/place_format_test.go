package queue

import (
	"os"
	"strings"
	"testing"
	"time"
)

// testdata/places-0.redis is what the first version left whose ids name places, beside format-0.redis: jobs in every state, and under which ids. Its times
// were put back into 2025, so that it is old wherever the test runs.
const placesFile = "testdata/places-0.redis"

var placesStates = map[string]State{"far": Delayed, "ready": Ready, "running": Running, "retrying": Delayed, "dead": Dead, "changed": Delayed}

var placesIDs = map[string]string{
	"retrying": "p000000000g0s6g2wvbqg",
	"dead":     "p00000000100tvdry4zh0",
	"running":  "p000000001g0terbd5r8g",
	"ready":    "p00000000200t8t3c9760",
	"changed":  "p000000002g0v0vyv5hcg",
	"far":      "p000000003018kyetddb0",
}

func TestWriteStoredPlaces(t *testing.T) {
	mayWrite(t, os.Getenv("WAKECALL_WRITE_PLACES"), placesFile)
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, []TopicConf{{Name: fixtureTopic, TTR: 10 * time.Second, MaxAttempts: 5}}); err != nil {
		t.Fatal(err)
	}
	store := func(name string) {
		p := placesPush(name)
		results, _ := f.s.storeAll(0, Memory, []Push{p}, time.Second) // Push would refuse what is due in 2200
		if results[0].Err != nil || len(results[0].Job.ID) != placeLen {
			t.Fatalf("%+v", results)
		}
		t.Logf("%q: %q,", name, results[0].Job.ID)
		if name == "far" || name == "changed" {
			return
		}
		if err := openPages(f.ctx, f.s, fixtureTopic); err != nil {
			t.Fatal(err)
		}
	}
	store("retrying")
	f.settle(Retry, func(s *Settlement) { s.Delay = time.Hour }, f.reserve(1)...)
	store("dead")
	f.settle(Bury, func(s *Settlement) { s.Reason = "attempts" }, f.reserve(1)...)
	store("running")
	f.reserve(1)
	store("ready")
	store("changed")
	jobs, _, err := f.q.List(f.ctx, fixtureTopic, Delayed, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	low := Low
	for _, j := range jobs {
		if nameOfPlaced(&j) == "changed" {
			if _, err := f.q.Change(f.ctx, fixtureTopic, j.ID, Change{Priority: &low}); err != nil {
				t.Fatal(err)
			}
		}
	}
	store("far")
	if err := os.WriteFile(placesFile, []byte(f.dump()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func placesPush(name string) Push {
	p := Push{Topic: fixtureTopic, ID: NewID(), Fresh: true, DueAt: farAway, Priority: Normal, Body: []byte(name + ";"), TTR: 9 * time.Second, MaxAttempts: 6, ContentType: "text/plain"}
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
			if name := nameOfPlaced(&j); name != "" && j.ID != placesIDs[name] { // lists leave out long bodies
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
		if j, err := f.q.RunNow(f.ctx, fixtureTopic, placesIDs[name]); err != nil || j.ID != placesIDs[name] || j.State != Ready {
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
