package figures

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/queue"
)

func TestWhatCannotBeCalledIsCarriedOver(t *testing.T) {
	t.Parallel()
	var f queue.Forecast
	f.Minutes[2], f.Minutes[3] = 1200, 600 // 5 a second are 300 calls a minute
	f.Hours[0] = 1800
	p := Predict(&f, 0, 5)
	if p.Late != 4*time.Minute || p.At != 4*time.Minute || p.Over != 8*time.Minute || p.Least() != 4 ||
		p.Minutes() != 6 ||
		!p.IsLate() {
		t.Errorf("the prediction is %+v", p)
	}
	if p := Predict(&f, 0, 100); p.IsLate() || p.Late != 0 {
		t.Errorf("jobs that can be called in time are %s late", p.Late)
	}
	if p := Predict(&queue.Forecast{}, 1200, 5); p.Late != 4*time.Minute || p.At != 0 || p.Over != 4*time.Minute {
		t.Errorf("overdue jobs: %+v", p)
	}
	f = queue.Forecast{}
	f.Hours[5] = 36_000 // twice the calls of an hour
	if p := Predict(&f, 0, 5); p.Late != time.Hour || p.At != 6*time.Hour || p.Over != 7*time.Hour {
		t.Errorf("later in the day: %+v", p)
	}
	if p := Predict(&f, 1, 0); p.IsLate() {
		t.Error("a lateness is predicted with an unknown capacity")
	}
}

func TestCapacityIsTheLowerLimit(t *testing.T) {
	t.Parallel()
	c := Capacity{Limit: 10, Flight: 4, Measured: 2}
	if c.Decide(); c.Rate != 4 || c.From != "flight" || !c.Sure() {
		t.Errorf("the forecast is %+v", c)
	}
	c = Capacity{}
	c.learn(pastRates(8, 100))
	if c.Decide(); c.Rate != 8 || c.From != "measured" || c.Sure() || c.Over != time.Minute || c.At.Unix() != 1060 {
		t.Errorf("the forecast is %+v", c)
	}
}

// TestALimitIsTheTruth, however slowly the topic was called so far: 2,500 jobs due within two minutes, at 5 a second,
// take 500 s; the last are six to nine minutes late.
func TestALimitIsTheTruth(t *testing.T) {
	t.Parallel()
	var f queue.Forecast
	f.Minutes[0], f.Minutes[1], f.Hours[0] = 1250, 1250, 2500
	c := Capacity{Limit: 5}
	c.learn(pastRates(1.7, 100))
	c.Decide()
	p := Predict(&f, 0, c.Rate)
	if c.Rate != 5 || !c.Sure() || p.Least() != 6 || p.Minutes() != 9 || p.At != 2*time.Minute {
		t.Errorf("at %v a second, the forecast is %+v", c.Rate, p)
	}
}

// pastRates is a history with callbacks at a constant rate while jobs were waiting.
func pastRates(rate, ready float64) history.Points {
	half := rate / 2
	return history.Points{Step: 60, Times: []int64{1000, 1060}, Values: map[string][]*float64{
		"delivered": {&half, &rate}, "failed": {nil, nil}, "ready": {nil, &ready},
	}}
}
