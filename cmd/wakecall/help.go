package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// examples are shown in the help of commands that have no longer ones of their own.
var examples = map[string]string{
	"up":               "wakecall up --config /etc/wakecall/wakecall.yaml",
	"server":           "wakecall server --config /etc/wakecall/wakecall.yaml",
	"admin":            "wakecall admin --config /etc/wakecall/wakecall.yaml",
	"timer":            "wakecall timer --config /etc/wakecall/wakecall.yaml",
	"dispatcher":       "wakecall dispatcher --config /etc/wakecall/wakecall.yaml",
	"redis-checker":    "wakecall redis-checker --config /etc/wakecall/wakecall.yaml",
	"gateway":          "wakecall gateway --config /etc/wakecall/wakecall.yaml",
	"get":              "wakecall get order.close order-42",
	"run":              "wakecall run order.close order-42",
	"resend":           "wakecall resend order.close order-42",
	"delete":           "wakecall delete order.close order-42",
	"list":             "wakecall list order.close --state ready --limit 100",
	"dead list":        "wakecall dead list order.close --status 503 --since 1h",
	"search":           "wakecall search order-42",
	"stats":            "wakecall stats order.close",
	"top":              "wakecall top --every 5s --rows 10",
	"topic list":       "wakecall topic list --prefix order. --state paused",
	"topic show":       "wakecall topic show order.close > order.close.yaml",
	"topic delete":     "wakecall topic delete order.close --drop-jobs",
	"topic pause":      "wakecall topic pause order.close --reason 'stock count'",
	"topic resume":     "wakecall topic resume order.close",
	"alert list":       "wakecall alert list --ended",
	"alert ack":        "wakecall alert ack 17 --reason 'the shop is down until noon'",
	"alert mute":       "wakecall alert mute 17 --for 2h --reason 'moving to another data center'",
	"alert unmute":     "wakecall alert unmute 17",
	"check":            "wakecall check --config /etc/wakecall/wakecall.yaml",
	"config":           "wakecall config --server-addr 0.0.0.0:6789",
	"host list":        "wakecall host list",
	"host forget":      "wakecall host forget wakecall-3",
	"migrate up":       "wakecall migrate up",
	"migrate status":   "wakecall migrate status",
	"ps":               "wakecall ps",
	"recover":          "wakecall recover --since 1h --dry-run",
	"shard list":       "wakecall shard list",
	"shard rename":     "wakecall shard rename redis-1 redis-berlin",
	"shard drain":      "wakecall shard drain redis-1",
	"shard delete":     "wakecall shard delete redis-1",
	"token list":       "wakecall token list",
	"token revoke":     "wakecall token revoke 3",
	"version":          "wakecall version --output json",
	"import beanstalk": "wakecall import beanstalk --addr 10.0.0.5:11300 --dry-run",

	"import delayqueue":      "wakecall import delayqueue --redis redis://:pw@10.0.0.5:6379/1 --dry-run",
	"import grape":           "wakecall import grape --redis redis://:pw@10.0.0.5:6379/0 --namespace GRAPE --dry-run",
	"import lmstfy":          "wakecall import lmstfy --redis redis://:pw@10.0.0.5:6379/0 --dry-run",
	"import phpdq":           "wakecall import phpdq --mysql 'mysql://user:pw@tcp(10.0.0.5:3306)/dq' --dry-run",
	"migrate forget-secrets": "wakecall migrate forget-secrets",
}

// completeHelp adds the examples, and removes the default of durations that the server, not the flag, sets.
func completeHelp(cmd *cobra.Command, path string) {
	if text := examples[path]; text != "" && cmd.Example == "" {
		cmd.Example = "  " + text
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue == "0s" {
			f.DefValue = ""
		}
	})
	for _, c := range cmd.Commands() {
		completeHelp(c, strings.TrimSpace(path+" "+c.Name()))
	}
}
