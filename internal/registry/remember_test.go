package registry

import (
	"encoding/json"
	"testing"
	"time"
)

func TestRememberIsLastZeroOrADuration(t *testing.T) {
	for text, want := range map[string]Remember{
		`"last"`: RememberLast, `0`: 0, `"0"`: 0, `"0s"`: 0, `"24h"`: Remember(24 * time.Hour),
		`90`: Remember(90 * time.Second),
	} {
		topic, err := DecodeTopic("t", []byte(`{"callback_url":"http://h/","remember":`+text+`}`))
		if err != nil || topic.Remember != want {
			t.Errorf("%s is %v, %v; want %v", text, topic, err, want)
			continue
		}
		b, _ := json.Marshal(topic.Remember)
		var again Remember
		if err := json.Unmarshal(b, &again); err != nil || again != want {
			t.Errorf("%s is written %s and read %v, %v", text, b, again, err)
		}
	}
	for _, text := range []string{`"always"`, `"-1ns"`, `-1`, `"1ms"`, `"721h"`, `true`, `"1"`} {
		if topic, err := DecodeTopic("t", []byte(`{"callback_url":"http://h/","remember":`+text+`}`)); err == nil {
			t.Errorf("%s is accepted as %v", text, topic.Remember)
		}
	}
	if topic, err := DecodeTopic("t", []byte(`{"callback_url":"http://h/"}`)); err != nil ||
		topic.Remember != RememberLast {
		t.Errorf("the default is %v, %v", topic, err)
	}
}
