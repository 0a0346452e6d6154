package history

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestSamplesAreReplacedAndPruned(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := NewStore(dbtest.Open(t, dsn))
		ctx, at := t.Context(), time.Now().Truncate(time.Minute)
		var many []Sample
		for i := range 2500 {
			many = append(many, Sample{fmt.Sprint("t", i), "1m", at, []byte(`{"p":1}`)})
		}
		many = append(
			many,
			Sample{"t1", "1m", at.Add(-24 * time.Hour), []byte(`{}`)},
			Sample{"t1", "1h", at.Add(-24 * time.Hour), []byte(`{}`)},
		)
		if err := errors.Join(r.PutSamples(ctx, many), r.PutSamples(ctx, []Sample{{"t1", "1m", at, []byte(`{"p":2}`)}}),
			r.PruneSamples(ctx, at)); err != nil {
			t.Fatal(err)
		}
		list, err := r.Samples(ctx, "t1", "1m", at.Add(-48*time.Hour), at.Add(time.Minute))
		if err != nil || len(list) != 1 || string(list[0].Data) != `{"p":2}` || !list[0].At.Equal(at) {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err := r.Samples(ctx, "t1", "1h", at.Add(-48*time.Hour), at); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
