package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of a benchmark.
type Report struct {
	StartedAt time.Time `json:"started_at"`
	Version   string    `json:"version"`
	Seconds   float64   `json:"seconds"` // the whole run took
	Quick     bool      `json:"quick"`   // shorter, less exact
	Runs      int       `json:"runs"`    // medians of so many
	Machine   Machine   `json:"machine"`
	Rows      []Row     `json:"rows"`
}

// Row is one figure of the report: the median of its runs.
type Row struct {
	Group  string  `json:"group"` // of --only
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	Limit  *Limit  `json:"limit,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"` // the median of the runs' ratios to their limits
	Target *Target `json:"target,omitempty"`
	Raw    []Raw   `json:"raw"` // one a run
}

// Limit is what this machine does without Wakecall.
type Limit struct {
	Title string  `json:"title"`
	Value float64 `json:"value"`
}

// Target is what the figure shall be.
type Target struct {
	Text string `json:"text"`
	Pass bool   `json:"pass"`
}

// Raw is what one run measured.
type Raw struct {
	Value  float64        `json:"value"`
	Limit  float64        `json:"limit,omitempty"`
	Detail map[string]any `json:"detail,omitempty"`
}

// figure is a row before its runs: what it is called and what is wanted of it.
type figure struct {
	name, title, unit      string
	limit                  string // what the limit is called, if there is one
	atLeast, atMost, ratio float64
	bounded                bool // atMost counts although it is 0
	fullOnly               bool // a quick run measures something else: no target then
}

func (f figure) row(group string, raw []Raw) Row {
	r := Row{Group: group, Name: f.name, Title: f.title, Unit: f.unit, Raw: raw}
	r.Value = median(raw, func(x Raw) float64 { return x.Value })
	if f.limit != "" && raw[0].Limit > 0 { // redis-benchmark may be missing
		r.Limit = &Limit{Title: f.limit, Value: median(raw, func(x Raw) float64 { return x.Limit })}
		r.Ratio = median(raw, func(x Raw) float64 { return x.Value / x.Limit })
	}
	switch {
	case f.ratio > 0:
		r.Target = &Target{Text: fmt.Sprintf("≥ %.2f of it", f.ratio), Pass: r.Ratio >= f.ratio}
	case f.atLeast > 0:
		r.Target = &Target{Text: "≥ " + amount(f.atLeast, f.unit), Pass: r.Value >= f.atLeast}
	case f.atMost > 0 || f.bounded:
		r.Target = &Target{Text: "≤ " + amount(f.atMost, f.unit), Pass: r.Value <= f.atMost}
	}
	return r
}

func median(raw []Raw, of func(Raw) float64) float64 {
	values := make([]float64, len(raw))
	for i, r := range raw {
		values[i] = of(r)
	}
	slices.Sort(values)
	n := len(values)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// amount is a number as people read it, with its unit.
func amount(v float64, unit string) string {
	digits := 0
	switch {
	case v != 0 && math.Abs(v) < 10 && v != math.Trunc(v):
		digits = 2
	case math.Abs(v) < 100 && v != math.Trunc(v):
		digits = 1
	}
	text := grouped(fmt.Sprintf("%.*f", digits, v))
	if unit == "" {
		return text
	}
	return text + " " + unit
}

// grouped puts a comma between the thousands.
func grouped(number string) string {
	whole, fraction, _ := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}

// Missed are the titles of the rows whose target was not reached.
func (r *Report) Missed() []string {
	var titles []string
	for _, row := range r.Rows {
		if row.Target != nil && !row.Target.Pass {
			titles = append(titles, row.Title)
		}
	}
	return titles
}

// JSON writes the report with all raw figures.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "WHAT\tWAKECALL\tTHIS MACHINE WITHOUT IT\tRATIO\tTARGET\t\t")
	for _, row := range r.Rows {
		fmt.Fprintln(tw, strings.Join(row.cells(), "\t")+"\t")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s", r.headline(), trimLines(table.String()))
	return err
}

// trimLines removes the padding of the last columns.
func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func (r *Report) headline() string {
	runs := fmt.Sprintf("medians of %d runs", r.Runs)
	if r.Runs == 1 {
		runs = "one run"
	}
	if r.Quick {
		runs += ", quick: shorter and less exact"
	}
	return fmt.Sprintf(
		"wakecall %s on %d × %s, %s of memory, Linux %s, %s, Redis %s; %s in %s",
		r.Version,
		r.Machine.Cores,
		r.Machine.CPU,
		gibibytes(r.Machine.Memory),
		r.Machine.Kernel,
		r.Machine.Go,
		r.Machine.Redis,
		runs,
		(time.Duration(r.Seconds) * time.Second).String(),
	)
}

func gibibytes(n int64) string { return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30)) }

func (r Row) cells() []string {
	value := amount(r.Value, r.Unit)
	cells := []string{r.Title, value, "", "", "", ""}
	if r.Limit != nil {
		cells[2] = r.Limit.Title + ": " + amount(r.Limit.Value, r.Unit)
		cells[3] = fmt.Sprintf("%.2f", r.Ratio)
	}
	if r.Target != nil {
		cells[4], cells[5] = r.Target.Text, verdict(r.Target.Pass)
	}
	return cells
}

func verdict(pass bool) string {
	if pass {
		return "pass"
	}
	return "MISS"
}
