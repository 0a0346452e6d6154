package figures

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
)

func TestWhatCannotBeCalledIsCarriedOver(t *testing.T) {
	t.Parallel()
	var f queue.Forecast
	f.Minutes[2], f.Minutes[3] = 1200, 600 // at 5 a second 300 a minute are called
	f.Hours[0] = 1800
	p := Predict(&f, 0, 5)
	if p.Late != 4*time.Minute || p.At != 4*time.Minute || p.Over != 8*time.Minute || p.Least() != 4 || p.Minutes() != 6 ||
		!p.IsLate() {
		t.Errorf("the prediction is %+v", p)
	}
	if p := Predict(&f, 0, 100); p.IsLate() || p.Late != 0 {
		t.Errorf("what can be called in time is %s late", p.Late)
	}
	if p := Predict(&queue.Forecast{}, 1200, 5); p.Late != 4*time.Minute || p.At != 0 || p.Over != 4*time.Minute {
		t.Errorf("what is due already: %+v", p)
	}
	f = queue.Forecast{}
	f.Hours[5] = 36_000 // twice what is called in an hour
	if p := Predict(&f, 0, 5); p.Late != time.Hour || p.At != 6*time.Hour || p.Over != 7*time.Hour {
		t.Errorf("later in the day: %+v", p)
	}
	if p := Predict(&f, 1, 0); p.IsLate() {
		t.Error("nothing is known of the capacity, and a lateness is told")
	}
}

func TestCapacityIsTheLowerLimit(t *testing.T) {
	t.Parallel()
	c := Capacity{Limit: 10, Flight: 4, Measured: 2}
	if c.Decide(); c.Rate != 4 || c.From != "flight" || !c.Sure() {
		t.Errorf("it is %+v", c)
	}
	c = Capacity{}
	c.learn(pastRates(8, 100))
	if c.Decide(); c.Rate != 8 || c.From != "measured" || c.Sure() || c.Over != time.Minute || c.At.Unix() != 1060 {
		t.Errorf("it is %+v", c)
	}
}

// TestALimitIsTheTruth, however slowly the topic was called so far: 2,500 jobs due within two minutes at 5 a second are
// called in 500 s, the last of them six to nine minutes late.
func TestALimitIsTheTruth(t *testing.T) {
	t.Parallel()
	var f queue.Forecast
	f.Minutes[0], f.Minutes[1], f.Hours[0] = 1250, 1250, 2500
	c := Capacity{Limit: 5}
	c.learn(pastRates(1.7, 100))
	c.Decide()
	p := Predict(&f, 0, c.Rate)
	if c.Rate != 5 || !c.Sure() || p.Least() != 6 || p.Minutes() != 9 || p.At != 2*time.Minute {
		t.Errorf("at %v a second it is %+v", c.Rate, p)
	}
}

// pastRates is a history whose callbacks went on at a rate, with some jobs waiting.
func pastRates(rate, ready float64) history.Points {
	half := rate / 2
	return history.Points{Step: 60, Times: []int64{1000, 1060}, Values: map[string][]*float64{
		"delivered": {&half, &rate}, "failed": {nil, nil}, "ready": {nil, &ready},
	}}
}
