package calendar

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Error is what is wrong with a cron expression, and where.
type Error struct {
	Offset int // the bytes before the mistake
	Text   string
}

func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Offset+1, e.Text) }

func wrong(offset int, format string, args ...any) error {
	return &Error{Offset: offset, Text: fmt.Sprintf(format, args...)}
}

// A field is one of the five of a cron expression.
type field struct {
	must     string // what a value must be
	min, max int
	names    []string // of min and the values after it
}

var layout = [...]field{
	{"minute must be 0 to 59", 0, 59, nil},
	{"hour must be 0 to 23", 0, 23, nil},
	{"day of the month must be 1 to 31", 1, 31, nil},
	{"month must be 1 to 12 or jan to dec", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{"day of the week must be 0 to 7 or sun to sat", 0, 7, strings.Fields("sun mon tue wed thu fri sat")},
}

const fieldNames = "five fields: minute, hour, day of the month, month, day of the week"

var macros = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// instead has what other programs accept, and what to write for it.
var instead = map[string]string{
	"@every":  `use "every" instead of "cron"`,
	"@reboot": "a schedule does not depend on restarts",
	"TZ":      `use "time_zone"`,
	"CRON_TZ": `use "time_zone"`,
	"?":       `write "*"`,
	"L":       "write a day that every month has, 1 to 28",
	"W":       "write days of the week in the fifth field, such as 1-5",
	"LW":      "write days of the week in the fifth field, such as 1-5",
	"#":       "write the day of the week, and check the date in the callback",
}

// future is an instant from which on zone data are rules for each year.
const future = 1 << 31

// Parse reads a cron expression of local times in a zone (see Zone). What is wrong with the expression is an *Error.
func Parse(cron, zone string) (*Rule, error) {
	location, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	words, err := split(cron)
	if err != nil {
		return nil, err
	}
	if macro, ok := macros[strings.ToLower(words[0].text)]; ok {
		return Parse(macro, zone)
	}
	r := &Rule{zone: location, start: earliest, end: latest}
	if r.cron, err = parse(words); err != nil {
		return nil, err
	}
	if _, ok := r.first(future, future+horizon); !ok {
		const never = "never due in %s: no such day in these months, or clocks always skip this time"
		return nil, wrong(words[2].offset, never, location)
	}
	return r, nil
}

// A word is what stands between spaces or commas.
type word struct {
	text   string
	offset int
}

// maxLength is more than all values of all fields take.
const maxLength = 500

var notSpace = regexp.MustCompile(`\S+`)

// split returns the words of an expression: five that may be fields, or a macro.
func split(cron string) (words []word, err error) {
	if len(cron) > maxLength {
		return nil, wrong(maxLength, "cron must have at most %d bytes", maxLength)
	}
	for _, at := range notSpace.FindAllStringIndex(cron, -1) {
		words = append(words, word{cron[at[0]:at[1]], at[0]})
	}
	if len(words) == 0 {
		return nil, wrong(0, "cron is required: %s", fieldNames)
	}
	first, last := words[0], words[len(words)-1]
	name, _, assigned := strings.Cut(first.text, "=")
	remedy, known := instead[name]
	_, macro := macros[strings.ToLower(name)]
	switch {
	case known && (assigned || name[0] == '@'):
		err = wrong(first.offset, "%s is not supported: %s", name, remedy)
	case macro && len(words) > 1:
		err = wrong(words[1].offset, "nothing may follow %s", name)
	case macro:
	case first.text[0] == '@':
		err = wrong(first.offset, "must be @hourly, @daily, @weekly, @monthly, @yearly or %s", fieldNames)
	case len(words) < len(layout):
		err = wrong(last.offset+len(last.text), "cron has %d of %s", len(words), fieldNames)
	case len(words) > len(layout):
		err = wrong(words[len(layout)].offset, `cron has more than %s; for seconds, use "every"`, fieldNames)
	}
	return words, err
}

func parse(words []word) (f fields, err error) {
	for i, bits := range []*uint64{&f.minutes, &f.hours, &f.days, &f.months, &f.weekdays} {
		if *bits, err = layout[i].list(words[i]); err != nil {
			return fields{}, err
		}
	}
	f.weekdays = (f.weekdays | f.weekdays>>7) & (1<<7 - 1)
	restricted := func(i int) bool { return words[i].text[0] != '*' }
	f.wallClock = restricted(0) && restricted(1)
	f.eitherDay = restricted(2) && restricted(4)
	return f, nil
}

// list reads values, ranges and steps between commas.
func (f *field) list(w word) (bits uint64, err error) {
	for text := range strings.SplitSeq(w.text, ",") {
		more, err := f.item(word{text, w.offset})
		if err != nil {
			return 0, err
		}
		bits |= more
		w.offset += len(text) + len(",")
	}
	return bits, nil
}

// itemForm matches a value or a range, and the step after it.
var itemForm = regexp.MustCompile(`^(\*|[^-/]+|[^-/*]+-[^-/]+)(?:/(.+))?$`)

func (f *field) item(w word) (bits uint64, err error) {
	match := itemForm.FindStringSubmatch(w.text)
	if match == nil {
		return 0, wrong(w.offset, "%s, or like *, */2, 1-5 or 1-5/2, not %q", f.must, w.text)
	}
	low, high, step := f.min, f.max, 1
	from, to, ranged := strings.Cut(match[1], "-")
	if from != "*" {
		low, err = f.value(from, w.offset)
		high = low
	}
	if err == nil && ranged {
		high, err = f.value(to, w.offset+len(from)+len("-"))
	}
	if err == nil && match[2] != "" {
		steps := field{fmt.Sprint("step must be 1 to ", f.max), 1, f.max, nil}
		step, err = steps.value(match[2], w.offset+len(match[1])+len("/"))
	}
	switch {
	case err != nil:
		return 0, err
	case high < low:
		return 0, wrong(w.offset, "%q ends before it begins: write %d-%d,%d-%d", match[1], low, f.max, f.min, high)
	case match[2] != "" && from != "*" && !ranged:
		return 0, wrong(w.offset, "a step needs a range: write %d-%d/%d", low, f.max, step)
	}
	for value := low; value <= high; value += step {
		bits |= 1 << value
	}
	return bits, nil
}

func (f *field) value(text string, offset int) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	if n, err := strconv.ParseUint(text, 10, 16); err == nil && int(n) >= f.min && int(n) <= f.max {
		return int(n), nil
	}
	symbol := strings.ToUpper(strings.Trim(text, "0123456789"))
	if strings.Contains(symbol, "#") {
		symbol = "#"
	}
	if remedy, ok := instead[symbol]; ok {
		return 0, wrong(offset, "%q is not supported: %s", text, remedy)
	}
	return 0, wrong(offset, "%s, not %q", f.must, text)
}
