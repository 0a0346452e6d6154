package test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
)

// viewer is a signed-in user of the admin.
type viewer struct {
	*http.Client
	url string
}

// get returns a page, or with part what htmx gets for a part of one.
func (v *viewer) get(path string, part bool) (string, error) {
	r, err := http.NewRequest(http.MethodGet, v.url+path, nil)
	if err != nil {
		return "", err
	}
	if part {
		r.Header.Set("HX-Request", "true")
	}
	res, err := v.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", path, res.Status)
	}
	return string(body), err
}

// shows waits until a page has some texts, and returns it.
func (v *viewer) shows(t *testing.T, path string, texts ...string) (body string) {
	t.Helper()
	harness.Eventually(t, harness.Patience, path+" to show "+strings.Join(texts, ", "), func() (err error) {
		if body, err = v.get(path, strings.HasPrefix(path, "/overview/")); err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return fmt.Errorf("it lacks %q", text)
			}
		}
		return nil
	})
	return body
}

// health returns the text of a topic's health in the list.
func (v *viewer) health(topic string) (string, error) {
	body, err := v.get("/topics", false)
	_, row, _ := strings.Cut(body, `href="/topics/`+topic+`">`)
	badge := regexp.MustCompile(`(?s)class="badge bg-(\w+)-lt">([^<]*)<`).FindStringSubmatch(row)
	if err != nil || badge == nil {
		return "", fmt.Errorf("no health of %s: %v", topic, err)
	}
	return badge[1] + " " + badge[2], nil
}

func (v *viewer) waitHealth(t *testing.T, topic, want string) {
	t.Helper()
	harness.Eventually(t, harness.Patience, topic+" to be "+want, func() error {
		got, err := v.health(topic)
		if err != nil {
			return err
		}
		return harness.Equal("health", got, want)
	})
}

// TestPagesDuringOutages: the first jobs are in the figures of 15 minutes. Without the database, the problems, charts
// and success rates stay what they were, with their age. Without Redis, nothing unknown is shown as zero or as healthy.
func TestPagesDuringOutages(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		r, opts := shared(t, db)
		i := start(t, opts)
		v := &viewer{signIn(t, i.Wakecall), i.AdminURL()}
		i.put(t, "good", nil, nil)
		i.put(t, "broken", harness.Status(http.StatusInternalServerError),
			M{"retry": []string{"100ms"}, "max_attempts": 1000})
		ledger := harness.NewLedger()
		for n := range 3 {
			ledger.MustPush(t, i.API, "good", fmt.Sprint(n), nil)
		}
		delivered := regexp.MustCompile(`(?s)Delivered</div>\s*<div class="h2[^>]*>3<`)
		harness.Eventually(t, harness.Patience, "the overview to count the first jobs", func() error {
			body, err := v.get("/", false)
			if err == nil && !delivered.MatchString(body) {
				err = fmt.Errorf("it does not show 3 deliveries in 15 minutes")
			}
			return err
		})
		i.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/topics/broken/jobs", M{"id": "x", "body": 1})
		v.shows(t, "/", "topic broken: the endpoint returns 500")
		v.waitHealth(t, "broken", "red breaker open")
		v.shows(t, "/charts/rates", `"series":[{`)

		db.Kill9()
		v.shows(t, "/", "The registry&#39;s database is unavailable: as of", "<time",
			"topic broken: the endpoint returns 500")
		v.shows(t, "/charts/rates", `"series":[{`, `"note":"As of {0}, `)
		v.waitHealth(t, "broken", "red breaker open")
		db.Start()
		harness.Eventually(t, harness.Patience, "the charts to be of now", func() error {
			body, err := v.get("/charts/rates", false)
			if err == nil && strings.Contains(body, `"note"`) {
				err = fmt.Errorf("they are old")
			}
			return err
		})

		v.shows(t, "/overview/ahead", "Next hour")
		r.Kill9()
		if _, out := i.Run("shard", "list"); !regexp.MustCompile(`active +– +– +– +down: `).MatchString(out) {
			t.Errorf("shard list prints\n%s", out)
		}
		v.waitHealth(t, "good", "red shard down")
		v.shows(t, "/topics/good?tab=forecast", "Unknown: no shard responds.")
		if body := v.shows(t, "/overview/ahead", "Next hour"); strings.Contains(body, `"at":[-`) {
			t.Errorf("the forecast begins in the year 1:\n%s", body)
		}
	})
}
