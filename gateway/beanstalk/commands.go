package beanstalk

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
)

// commandNames are the commands that the statistics count, in their order.
var commandNames = [...]string{
	"put", "peek", "peek-ready", "peek-delayed", "peek-buried", "reserve", "reserve-with-timeout", "delete", "release",
	"use", "watch", "ignore", "bury", "kick", "touch", "stats", "stats-job", "stats-tube", "list-tubes",
	"list-tube-used", "list-tubes-watched", "pause-tube",
	"reserve-job", "kick-job", "quit", // not in the statistics
}

// counted is how many of commandNames the statistics show.
const counted = 22

// A spec holds a command's number of arguments and the function that runs it.
type spec struct {
	args int
	run  func(k *conn, args []string, body []byte) error
}

// specs is set by init, because the commands refer to it through the statistics.
var specs map[string]spec

func init() {
	specs = map[string]spec{
		"put":                  {4, (*conn).put},
		"use":                  {1, named((*conn).useTube)},
		"reserve":              {0, (*conn).reserveForever},
		"reserve-with-timeout": {1, (*conn).reserveWithTimeout},
		"reserve-job":          {1, identified((*conn).reserveJob)},
		"delete":               {1, identified((*conn).remove)},
		"release":              {3, (*conn).release},
		"bury":                 {2, (*conn).bury},
		"touch":                {1, identified((*conn).touch)},
		"watch":                {1, named((*conn).watchTube)},
		"ignore":               {1, named((*conn).ignoreTube)},
		"peek":                 {1, identified((*conn).peek)},
		"peek-ready":           {0, peeking(store.Ready)},
		"peek-delayed":         {0, peeking(store.Delayed)},
		"peek-buried":          {0, peeking(store.Dead)},
		"kick":                 {1, (*conn).kick},
		"kick-job":             {1, identified((*conn).kickJob)},
		"stats":                {0, (*conn).stats},
		"stats-job":            {1, identified((*conn).statsJob)},
		"stats-tube":           {1, named((*conn).statsTube)},
		"list-tubes":           {0, (*conn).listTubes},
		"list-tube-used":       {0, (*conn).listTubeUsed},
		"list-tubes-watched":   {0, (*conn).listTubesWatched},
		"pause-tube":           {2, (*conn).pauseTube},
		"quit":                 {0, func(*conn, []string, []byte) error { return errQuit }},
	}
}

// errQuit ends a connection.
var errQuit = errors.New("client quit")

// known returns the command's name for the metrics.
func (c *command) known() string {
	if _, ok := specs[c.name]; ok {
		return c.name
	}
	return "unknown"
}

// execute runs a command and writes its reply. result is for the metrics. An error ends the connection.
func (k *conn) execute(c command) (result string, err error) {
	s, ok := specs[c.name]
	switch {
	case c.refusal != "":
		return gateway.Refused, k.reply(c.refusal)
	case !ok:
		return gateway.Refused, k.reply(unknownCommand)
	case len(c.args) != s.args:
		return gateway.Refused, k.reply(badFormat)
	}
	k.counts.commands[slices.Index(commandNames[:], c.name)].Add(1)
	k.expire(time.Now())
	err = s.run(k, c.args, c.body)
	switch {
	case err == nil, errors.Is(err, errQuit), k.ctx.Err() != nil:
		return gateway.ResultOf(err), err
	case errors.Is(err, errBadFormat):
		return gateway.Refused, k.reply(badFormat)
	case isFull(err):
		return gateway.Unavailable, k.reply("OUT_OF_MEMORY")
	case isLimit(err):
		k.Log.Warn("command refused", "command", c.name, "error", err)
		return gateway.Refused, k.reply("OUT_OF_MEMORY")
	}
	k.Log.Error("command failed", "command", c.name, "error", err)
	return gateway.ResultOf(err), k.reply("INTERNAL_ERROR")
}

// errBadFormat is returned for malformed arguments.
var errBadFormat = errors.New("malformed arguments")

func isFull(err error) bool {
	var away *store.UnavailableError
	return errors.As(err, &away) && away.Reason == "full"
}

// isLimit reports whether an error refuses a connection that watches too many tubes. beanstalkd has no reply for that.
func isLimit(err error) bool {
	var limit *pull.LimitError
	return errors.As(err, &limit)
}

// named wraps a command that takes the name of a tube.
func named(run func(*conn, string) error) func(*conn, []string, []byte) error {
	return func(k *conn, args []string, _ []byte) error {
		if !validTube(args[0]) {
			return errBadFormat
		}
		return run(k, args[0])
	}
}

// identified wraps a command that takes an id.
func identified(run func(*conn, uint64) error) func(*conn, []string, []byte) error {
	return func(k *conn, args []string, _ []byte) error {
		id, ok := number(args[0], 64)
		if !ok {
			return errBadFormat
		}
		return run(k, id)
	}
}

func (k *conn) useTube(name string) error {
	k.use(name)
	return k.reply("USING", name)
}

func (k *conn) watchTube(name string) error {
	if err := k.watch(name); err != nil {
		return err
	}
	return k.reply("WATCHING", strconv.Itoa(len(k.watched)))
}

func (k *conn) ignoreTube(name string) error {
	if !k.ignore(name) {
		return k.reply("NOT_IGNORED")
	}
	return k.reply("WATCHING", strconv.Itoa(len(k.watched)))
}

func (k *conn) pauseTube(args []string, _ []byte) error {
	seconds, ok := number(args[1], 32)
	if !validTube(args[0]) || !ok {
		return errBadFormat
	}
	if !k.tubes.pauseTube(args[0], time.Duration(seconds)*time.Second) {
		return k.reply("NOT_FOUND")
	}
	return k.reply("PAUSED")
}

func (k *conn) listTubes([]string, []byte) error {
	if err := k.alone(func() error { return k.tubes.refresh(k.ctx, k.queue) }); err != nil {
		return err
	}
	return k.replyList(k.tubes.names())
}

func (k *conn) listTubeUsed([]string, []byte) error { return k.reply("USING", k.used) }

func (k *conn) listTubesWatched([]string, []byte) error { return k.replyList(k.watched) }

// replyList replies with a YAML list.
func (k *conn) replyList(names []string) error {
	var b strings.Builder
	b.WriteString("---\n")
	for _, name := range names {
		b.WriteString("- " + name + "\n")
	}
	return k.replyYAML(b.String())
}

func (k *conn) replyYAML(text string) error {
	_ = k.reply("OK", strconv.Itoa(len(text)))
	_, err := k.w.WriteString(text + "\r\n")
	return err
}
