package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	encodingjson "github.com/go-json-experiment/json/v1"

	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
)

// format is the value of --output.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
)

func (f *format) String() string { return string(*f) }

// Type returns the name of the value in the help.
func (f *format) Type() string { return "FORMAT" }

// Set parses the flag.
func (f *format) Set(s string) error {
	switch format(s) {
	case formatTable, formatJSON:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("%q is not table or json", s)
}

// show prints v as JSON, or as text by table.
func (p *program) show(v any, table func(w io.Writer) error) error {
	if p.output != formatJSON {
		return table(p.out)
	}
	return writeJSON(p.out, v)
}

// say prints v as JSON, or a line of text.
func (p *program) say(v any, format string, args ...any) error {
	return p.show(v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	})
}

// writeJSON writes v with times in the format of the API: encoding/json drops trailing zeros, and such texts do not
// sort correctly.
func writeJSON(w io.Writer, v any) error {
	instants := json.MarshalToFunc(func(enc *jsontext.Encoder, t time.Time) error {
		return enc.WriteToken(jsontext.String(t.UTC().Format(describe.TimeLayout)))
	})
	b, err := json.Marshal(v, encodingjson.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.WithIndent("  "),
		json.WithMarshalers(instants))
	if err != nil {
		return err
	}
	_, err = printable.JSON{W: w}.Write(append(b, '\n'))
	return err
}

// table prints a row of each element below the titles, in columns.
func table[T any](w io.Writer, titles []string, list []T, row func(T) []string) error {
	rows := [][]string{titles}
	for _, e := range list {
		rows = append(rows, row(e))
	}
	return columns(w, rows)
}

// fields prints name and value pairs, and omits empty values.
func fields(w io.Writer, pairs ...string) error {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, pairs[i:i+2])
		}
	}
	return columns(w, rows)
}

func columns(w io.Writer, rows [][]string) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable.Line(cell)
		}
		fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
