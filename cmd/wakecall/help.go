package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// examples are those of commands that have none beside their flags, by the command's path.
var examples = map[string]string{
	"wakecall": `  wakecall up --demo
  wakecall push demo --body '{"order":42}' --delay 5s`,
	"wakecall up":   `  wakecall up --config /etc/wakecall/wakecall.yaml`,
	"wakecall demo": `  wakecall demo`,
	"wakecall dev": `  wakecall dev
  wakecall dev --addr 127.0.0.1:6790 --token secret`,
	"wakecall server":        `  wakecall server --server-addr 0.0.0.0:6789`,
	"wakecall timer":         `  wakecall timer --config /etc/wakecall/wakecall.yaml`,
	"wakecall dispatcher":    `  wakecall dispatcher --dispatcher-concurrency 512`,
	"wakecall redis-checker": `  wakecall redis-checker --config /etc/wakecall/wakecall.yaml`,
	"wakecall admin":         `  wakecall admin --admin-addr 127.0.0.1:8088`,
	"wakecall gateway":       `  wakecall gateway --gateways-beanstalk-addr 11300`,

	"wakecall get":    `  wakecall get order.close order-42`,
	"wakecall delete": `  wakecall delete order.close order-42`,
	"wakecall run":    `  wakecall run order.close order-42`,
	"wakecall resend": `  wakecall resend order.close order-42`,
	"wakecall list": `  wakecall list order.close --state ready
  wakecall list order.close --state done --prefix order-`,
	"wakecall search": `  wakecall search order-42
  wakecall search order-42 --topic order.close`,
	"wakecall group show":   `  wakecall group show order-42`,
	"wakecall group cancel": `  wakecall group cancel order-42 --close 10m`,
	"wakecall group move": `  wakecall group move order-42 --delay 1h
  wakecall group move order-42 --shift -15m`,
	"wakecall dead list": `  wakecall dead list order.close --status 503 --since 1h`,
	"wakecall stats": `  wakecall stats
  wakecall stats order.close --output json`,
	"wakecall top": `  wakecall top --every 5s --rows 10`,

	"wakecall alert list":   `  wakecall alert list --ended`,
	"wakecall alert ack":    `  wakecall alert ack 17 --reason 'the shop is being deployed'`,
	"wakecall alert mute":   `  wakecall alert mute 17 --for 2h --reason 'maintenance of redis-1'`,
	"wakecall alert unmute": `  wakecall alert unmute 17`,

	"wakecall topic list":   `  wakecall topic list --prefix order. --state paused`,
	"wakecall topic show":   `  wakecall topic show order.close > order.close.yaml`,
	"wakecall topic pause":  `  wakecall topic pause order.close --reason 'stock count' --until 2h`,
	"wakecall topic resume": `  wakecall topic resume order.close`,
	"wakecall topic delete": `  wakecall topic delete order.close --drop-jobs`,

	"wakecall schedule list":   `  wakecall schedule list --topic reports`,
	"wakecall schedule show":   `  wakecall schedule show report`,
	"wakecall schedule delete": `  wakecall schedule delete report`,
	"wakecall schedule pause":  `  wakecall schedule pause report --until 2026-12-27T00:00:00+08:00`,
	"wakecall schedule resume": `  wakecall schedule resume report --catch-up`,
	"wakecall schedule run":    `  wakecall schedule run report`,
	"wakecall schedule backfill": `  wakecall schedule backfill report --from 2026-11-01T00:00:00Z ` +
		`--to 2026-11-08T00:00:00Z --dry-run`,

	"wakecall task list":   `  wakecall task list --limit 20`,
	"wakecall task show":   `  wakecall task show 7`,
	"wakecall task cancel": `  wakecall task cancel 7`,
	"wakecall relay list":  `  wakecall relay list --dsn sqlite:///var/lib/shop/shop.db`,
	"wakecall relay retry": `  wakecall relay retry 4711`,
	"wakecall relay drop":  `  wakecall relay drop 4711`,

	"wakecall shard list":   `  wakecall shard list`,
	"wakecall shard rename": `  wakecall shard rename redis-1 orders`,
	"wakecall shard drain":  `  wakecall shard drain redis-1`,
	"wakecall shard delete": `  wakecall shard delete redis-1`,
	"wakecall host list":    `  wakecall host list`,
	"wakecall host forget":  `  wakecall host forget web-3`,
	"wakecall token list":   `  wakecall token list`,
	"wakecall token update": `  wakecall token update 3 --pushes-per-second 100 --waiting-jobs 50000`,
	"wakecall token revoke": `  wakecall token revoke 3`,

	"wakecall ps": `  wakecall ps
  wakecall ps --output json`,
	"wakecall health": `  wakecall health --role dispatcher --timeout 5s`,
	"wakecall check":  `  wakecall check --config /etc/wakecall/wakecall.yaml`,
	"wakecall config": `  wakecall config
  wakecall config --reference > wakecall.yaml`,
	"wakecall migrate up":             `  wakecall migrate up`,
	"wakecall migrate status":         `  wakecall migrate status`,
	"wakecall migrate forget-secrets": `  wakecall migrate forget-secrets`,
	"wakecall backup":                 `  wakecall backup /var/backups/wakecall/$(date +%F)`,
	"wakecall restore": `  wakecall restore /var/backups/wakecall/2026-11-28 --dry-run
  wakecall restore /var/backups/wakecall/2026-11-28 --shard redis-1=redis://new-host:6379/0`,
	"wakecall registry copy": `  wakecall registry copy --to @/etc/wakecall/new-dsn --dry-run
  wakecall registry copy --from sqlite:/var/lib/wakecall/registry.db --to @/etc/wakecall/new-dsn`,
	"wakecall recover": `  wakecall recover --since 1h --dry-run
  wakecall recover --journal /mnt/backup/journal --shard redis-1`,
	"wakecall version": `  wakecall version`,

	"wakecall import lmstfy": `  wakecall import lmstfy --redis redis://old:6379/0 ` +
		`--admin-redis redis://old:6379/1 --dry-run`,
	"wakecall import phpdq":      `  wakecall import phpdq --mysql 'mysql://user:pw@tcp(old:3306)/dq' --dry-run`,
	"wakecall import delayqueue": `  wakecall import delayqueue --redis redis://:pw@old:6379/1 --follow`,
	"wakecall import grape":      `  wakecall import grape --redis redis://:pw@old:6379/0 --dry-run`,
	"wakecall import beanstalk":  `  wakecall import beanstalk --addr old:11300 --dry-run`,
}

// completeHelp gives a command and all below it their examples, and removes the default of durations that the server,
// not the flag, sets.
func completeHelp(cmd *cobra.Command) {
	if text, ok := examples[cmd.CommandPath()]; ok {
		cmd.Example = text
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue == "0s" {
			f.DefValue = ""
		}
	})
	for _, below := range cmd.Commands() {
		completeHelp(below)
	}
}
