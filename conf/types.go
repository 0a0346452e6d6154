package conf

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// Type is the syntax of a key's values.
type Type struct {
	// Parse parses a value that is not empty. Its error completes a sentence that begins with the value.
	Parse func(text string) (any, error)

	bounds  string                // the allowed values, if they are few or numbers
	split   func(string) []string // splits a list, which is stored with commas; nil: a single value
	mask    func(string) string   // hides passwords; nil: there are none
	listens bool                  // the values are addresses to listen on
	with    string                // the key that must be set if and only if this one is
	guard   string                // the key without which the value must be a loopback address
}

// With returns the type of values that are set if and only if the key at a path has one, too.
func (t Type) With(path string) Type {
	t.with = path
	return t
}

// Guarded returns the type of addresses that must be loopback ones unless the key at a path is set.
func (t Type) Guarded(path string) Type {
	t.guard = path
	return t
}

// Text returns the type of any text.
func Text() Type { return Type{Parse: func(s string) (any, error) { return s, nil }} }

// Path returns the type of paths. A relative one starts at the working directory of the first process that reads it.
func Path() Type { return Type{Parse: func(s string) (any, error) { return filepath.Abs(s) }} }

// matching is the type of texts of a form.
func matching(form, detail string) Type {
	compiled := regexp.MustCompile(form)
	return Type{Parse: func(s string) (any, error) {
		if !compiled.MatchString(s) {
			return nil, errors.New(detail)
		}
		return s, nil
	}}
}

// choice is a name that stands for a value.
type choice struct {
	name  string
	value any
}

func oneOf(choices ...choice) Type {
	var names []string
	for _, c := range choices {
		names = append(names, c.name)
	}
	list := strings.Join(names, ", ")
	return Type{bounds: list, Parse: func(s string) (any, error) {
		for _, c := range choices {
			if c.name == s {
				return c.value, nil
			}
		}
		return nil, errors.New("must be one of " + list)
	}}
}

// Number returns the type of whole numbers.
func Number(least, most int) Type { return number(least, most) }

func number(least, most int) Type {
	bounds := fmt.Sprintf("%d to %d", least, most)
	return Type{bounds: bounds, Parse: func(s string) (any, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most || strconv.Itoa(n) != s { // YAML 1.1 reads 010 as 8
			return nil, errors.New("must be a whole number, " + bounds)
		}
		return n, nil
	}}
}

// Size returns the type of numbers of bytes, whose values are of the type int64.
func Size(least, most string) Type { return size(least, most) }

// size is the type of numbers of bytes.
func size(least, most string) Type {
	bounds := least + " to " + most
	return Type{bounds: bounds, Parse: func(s string) (any, error) {
		n, err := humanize.ParseBytes(s)
		low, _ := humanize.ParseBytes(least)
		high, _ := humanize.ParseBytes(most)
		if err != nil || n < low || n > high {
			return nil, errors.New("must be a size such as 4096, 256KiB, 64MiB or 1GiB, " + bounds)
		}
		return int64(n), nil
	}}
}

func duration() Type {
	return Type{Parse: func(s string) (any, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return nil, errors.New("must be a duration above zero, such as 500ms, 90s, 30m or 168h")
		}
		return d, nil
	}}
}

// Seconds returns the type of durations of whole seconds, from 0 to the 32-bit limit of older protocols.
func Seconds() Type {
	return Type{Parse: func(s string) (any, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d%time.Second != 0 || d/time.Second > math.MaxUint32 {
			return nil, errors.New("must be a duration of whole seconds, such as 0s, 90s, 30m or 24h")
		}
		return d, nil
	}}
}

// Priorities are the weights of high, normal and low, written 5:3:2.
type Priorities [3]int

func (p Priorities) String() string { return fmt.Sprintf("%d:%d:%d", p[0], p[1], p[2]) }

func priorities() Type {
	return Type{bounds: "each 1 to 100", Parse: func(s string) (any, error) {
		var p Priorities
		parts := strings.Split(s, ":")
		for i, t := range parts {
			n, err := strconv.Atoi(t)
			if err != nil || n < 1 || n > 100 || strconv.Itoa(n) != t || len(parts) != len(p) {
				return nil, errors.New("must be three numbers from 1 to 100, for high, normal and low, such as 5:3:2")
			}
			p[i] = n
		}
		return p, nil
	}}
}

// secret is the type of secrets with a minimum length.
func secret(least int) Type {
	return Type{mask: func(string) string { return address.Hidden }, Parse: func(s string) (any, error) {
		if len(s) < least {
			return nil, fmt.Errorf("must have at least %d characters", least)
		}
		return Secret(s), nil
	}}
}

// sealKey is the type of registry.seal_key.
func sealKey() Type {
	return Type{mask: func(string) string { return address.Hidden }, Parse: func(s string) (any, error) {
		_, err := seal.ParseKey(s)
		return Secret(s), err
	}}
}
