package charttest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/wakecall/wakecall/conf"
)

type series map[string]string

// calling is an installation at rest for an hour: two pods with two dispatchers each, whose calls took 200 ms.
func calling(changes ...series) series {
	all := series{
		`wakecall_callback_duration_seconds_sum{IS}`:   "0+12x60",
		`wakecall_callback_duration_seconds_count{IS}`: "0+60x60",
		`wakecall_due_jobs{IS,minute="1"}`:             "0x60",
		`wakecall_dispatcher_free_places{IS,n="1"}`:    "256x60",
		`wakecall_dispatcher_free_places{IS,n="2"}`:    "256x60",
		`wakecall_dispatcher_free_places{IS,n="3"}`:    "256x60",
		`wakecall_dispatcher_free_places{IS,n="4"}`:    "256x60",
	}
	for _, c := range changes {
		maps.Copy(all, c)
	}
	return all
}

func places(free string) series {
	s := series{}
	for i := range 4 {
		s[fmt.Sprintf(`wakecall_dispatcher_free_places{IS,n="%d"}`, i+1)] = free
	}
	return s
}

func clears(seconds string) series {
	return series{`wakecall_backlog_clear_seconds{IS,topic="t"}`: seconds}
}

// TestChartScalesOnTheForecast: Prometheus answers each trigger's query with the number of dispatcher pods that are
// needed, when they are.
func TestChartScalesOnTheForecast(t *testing.T) {
	t.Parallel()
	object := Find(t, rendered(t, `
dispatcher: {enabled: true}
keda: {enabled: true, prometheus: "http://prometheus:9090"}
`), "ScaledObject/wakecall-dispatcher")
	cases := map[string]struct {
		given         series
		wave, backlog string // pods; empty: no answer
	}{
		"nothing to do": {calling(), "0", "0"},
		// 10,000 a second for 0.2 s each take 2,000 places. The pods with all processes use 716, each other pod 179.
		"a wave in five minutes": {calling(series{`wakecall_due_jobs{IS,minute="5"}`: "600000x60"}), "8", "0"},
		"the same on two hosts": {calling(series{`wakecall_due_jobs{IS,minute="5",pod="a"}`: "600000x60",
			`wakecall_due_jobs{IS,minute="5",pod="b"}`: "600000x60"}), "8", "0"},
		"a wave in six minutes":      {calling(series{`wakecall_due_jobs{IS,minute="6"}`: "600000x60"}), "0", "0"},
		"a wave that is small":       {calling(series{`wakecall_due_jobs{IS,minute="1"}`: "200000x60"}), "0", "0"},
		"a wave of another instance": {calling(series{`wakecall_due_jobs{job="x",minute="1"}`: "600000x60"}), "0", "0"},
		"a wave, calls take a millisecond": {calling(series{`wakecall_due_jobs{IS,minute="2"}`: "3000000x60",
			`wakecall_callback_duration_seconds_sum{IS}`: "0+0.06x60"}), "11", "0"}, // 5,000 a second for each dispatcher
		"a wave, calls hang": {calling(series{`wakecall_due_jobs{IS,minute="2"}`: "60000x60",
			`wakecall_callback_duration_seconds_sum{IS}`: "0+1800x60"}), "2", "0"},
		"a wave, nothing was called yet": {calling(series{`wakecall_due_jobs{IS,minute="2"}`: "60000x60",
			`wakecall_callback_duration_seconds_count{IS}`: "0x60", `wakecall_callback_duration_seconds_sum{IS}`: "0x60"}), "2", "0"},
		"places are short":               {calling(places("0x60")), "0", "2"},
		"a backlog that is soon cleared": {calling(places("0x60"), clears("30x60")), "0", "2"},
		"a backlog of two minutes":       {calling(places("0x60"), clears("120x60")), "0", "8"},
		"a backlog that grows":           {calling(places("0x60"), clears("_x60 Inf")), "0", "19"},
		"a backlog at a topic's limit":   {calling(places("200x60"), clears("_x60 Inf")), "0", "0"},
		"no series":                      {series{`up{IS}`: "1x60"}, "", ""},
	}
	var tests []any
	for name, c := range cases {
		var input []any
		for s, values := range c.given {
			s = strings.ReplaceAll(s, "IS", `job="prod/wakecall"`)
			input = append(input, map[string]any{"series": s, "values": values})
		}
		tests = append(tests, map[string]any{
			"name": name, "interval": "1m", "input_series": input,
			"promql_expr_test": []any{pods(object, 0, c.wave), pods(object, 1, c.backlog)},
		})
	}
	text, err := yaml.Marshal(map[string]any{"evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// pods is a test of promtool: how many pods KEDA makes of a trigger's answer.
func pods(object Object, trigger int, want string) any {
	metadata := object.Part("spec", "triggers", trigger, "metadata")
	samples := []any{}
	if n, err := strconv.Atoi(want); err == nil {
		samples = append(samples, map[string]any{"labels": "{}", "value": n})
	}
	return map[string]any{
		"expr":      fmt.Sprintf("ceil((%s) / %s)", metadata.Text("query"), metadata.Text("threshold")),
		"eval_time": "60m", "exp_samples": samples,
	}
}

// TestChartScalesByTheConfiguration: the triggers follow the number of places of a dispatcher and of the pods with all
// processes, and pods are removed no faster than their calls end.
func TestChartScalesByTheConfiguration(t *testing.T) {
	t.Parallel()
	defaults := conf.Default()
	for config, c := range map[string]struct{ concurrency, dispatchers, replicas int }{
		"{}": {defaults.Dispatcher.Concurrency, defaults.Dispatchers, 2},
		"{dispatcher: {concurrency: 100}, dispatchers: 0}": {100, 0, 3},
	} {
		objects := rendered(t, fmt.Sprintf(`
replicas: %d
shutdownSeconds: 90
config: %s
dispatcher: {enabled: true}
keda:
  {enabled: true, prometheus: "http://p", minReplicas: 0, maxReplicas: 7, leadMinutes: 8, selector: 'cluster="x"'}
`, c.replicas, config))
		spec := Find(t, objects, "ScaledObject/wakecall-dispatcher").Part("spec")
		each := c.concurrency * 70 / 100
		for path, want := range map[string]string{
			"minReplicaCount": "0", "maxReplicaCount": "7", "triggers.0.metadata.threshold": strconv.Itoa(each),
			"triggers.1.metadata.threshold": strconv.Itoa(each), "triggers.0.metadata.serverAddress": "http://p",
			"triggers.0.metadata.ignoreNullValues": "false", "triggers.1.metadata.ignoreNullValues": "false",
			"advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds": "480",
		} {
			if got := at(spec, path); got != want {
				t.Errorf("with the config %s, %s is %q, want %q", config, path, got, want)
			}
		}
		wave, backlog := at(spec, "triggers.0.metadata.query"), at(spec, "triggers.1.metadata.query")
		own := fmt.Sprintf("- %d,", each*c.dispatchers*c.replicas)
		if !strings.Contains(wave, own) || !strings.Contains(backlog, own) ||
			!strings.Contains(wave, `cluster="x",minute=~"1|2|3|4|5|6|7|8"`) ||
			!strings.Contains(backlog, fmt.Sprintf(`%d * count(wakecall_dispatcher_free_places{cluster="x"})`, c.concurrency)) {
			t.Errorf("with the config %s the queries are %s\nand %s", config, wave, backlog)
		}
		pod := Find(t, objects, "StatefulSet/wakecall-dispatcher").Part("spec", "template", "spec")
		policy := "advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.policies.0."
		if at(spec, policy+"periodSeconds") != pod.Text("terminationGracePeriodSeconds") || at(spec, policy+"value") != "1" {
			t.Errorf("pods that stop within %s s are removed as %v",
				pod.Text("terminationGracePeriodSeconds"), spec.Get("advanced"))
		}
	}
}
