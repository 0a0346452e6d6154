// Package alert finds what is wrong and tells people: by mail, and by webhooks for Slack, Feishu, DingTalk, WeCom and
// others.
//
// # The life of an alert
//
// An alert is an incident of a topic, a shard or the installation. It has one cause or several, which come and go while
// it is open: an endpoint that answers 429, jobs that are late, jobs that died.
//
//	           a round finds a cause              no cause was found for a while
//	nothing ───────────────────────────> open ───────────────────────────────────> ended
//
// Rounds (every five seconds) find what is wrong now: levels, not events. A cause neither begins nor ends in a round
// that cannot judge it, because a shard does not answer. A host that has just started ends nothing of others before
// it has watched for the span of the rule, such as ten minutes for dead jobs. What is found near a limit ends at half
// of it, and after Rules.OverAfter without a finding, so that what goes up and down is one alert. While a shard is
// down, and for two minutes after that, topics that begin to be late are part of its alert. Of the topics with the
// same kind of trouble the worst 100 have alerts, and one alert counts the others: each alert is stored and read on its
// own.
//
// Of the hosts that find the same, the first raises the alert, the others are noted with it, and it is over when none
// has found it for 90 seconds; other hosts end the alerts of a host that died.
//
// # Telling people
//
// What a person (a mail address, a webhook) was told is stored: which alerts began for it, when the last message went
// out. Each round compares that with the open alerts, so nothing that began or ended is lost or told twice. Told.due
// has the rules. Of the hosts that see that a message is due, the one that updates what was told sends it. While the
// store is away each host relies on its own memory and the last known settings, because an outage of the registry must
// not delay a mail about Redis; two hosts may then send the same message.
//
// Dead jobs are reported to the addresses of their topics, by the host that claims them in the store, with the same
// pauses. Deaths during a time without any watch, without the store, or without one of the shards are reported later.
//
// # Sending
//
// Each recipient of each message is one delivery. Each channel has a bounded queue and its own worker, with time
// limits and five tries over about ten minutes, so a mail server that hangs delays no webhook. The store knows which
// messages wait and which process sends them: what a process leaves behind after a reload, or two minutes after it
// died, is sent by another one, on any host. Results are kept in the store. Rounds never wait for a mail server, and
// sending never waits for the store.
//
// # Files
//
// watch.go and trend.go read the topics, judge.go has the rules, cause.go what they find, open.go the life of an alert,
// handled.go who looks after one. route.go, tell.go and people.go decide who is told when, compose.go and message.go
// what, dead.go and deaths.go are about dead jobs. outbox.go and send.go send; store.go, told.go and deliveries.go
// store.
package alert
