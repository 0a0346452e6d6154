// Package alert detects problems and notifies people: by mail, and by webhooks for Slack, Feishu, DingTalk, WeCom and
// other services.
//
// # The life of an alert
//
// An alert is an incident of a topic, a shard or the installation. It has one or more causes, which come and go while
// the alert is open: an endpoint that answers 429, jobs that are late, jobs that died.
//
//	           a round finds a cause              no cause was found for a while
//	nothing ───────────────────────────> open ───────────────────────────────────> ended
//
// Rounds (every five seconds) find what is wrong now: levels, not events. If a round cannot judge a cause because a
// shard does not answer, the cause neither begins nor ends in it. A host that has just started does not end alerts of
// other hosts until it has watched for the span of the rule, such as ten minutes for dead jobs. A value that exceeded
// its limit ends its cause only below half the limit and after Rules.OverAfter without a finding, so that a fluctuating
// value is one alert. While a shard is down, and for two minutes after that, topics that begin to be late are part of
// its alert. For each kind of problem, the 100 most severely affected topics have alerts, and one more alert counts the
// others, because each alert is stored and read separately.
//
// When several hosts find the same problem, the first raises the alert and the others are recorded as its finders. The
// alert is over when no host has found it for 90 seconds; other hosts end the alerts of a host that died.
//
// # Notifying people
//
// The store has what each person (a mail address, a webhook) was notified about: the alerts that began for it, and when
// the last message was sent. Each round compares that with the open alerts, so nothing that began or ended is lost or
// reported twice. Told.due has the rules. Of the hosts that see that a message is due, the one that updates this state
// sends it. While the store is unavailable, each host relies on its own memory and the last known settings, because an
// outage of the registry must not delay a mail about Redis; two hosts may then send the same message.
//
// Dead jobs are reported to the addresses of their topics, by the host that claims them in the store, with the same
// pauses. Deaths that happen while no host watches, the store is unavailable or a shard is down are reported later.
//
// # Sending
//
// Each message is one delivery per recipient. Each channel has a bounded queue and its own worker, with time limits and
// five tries over about ten minutes, so a mail server that hangs delays no webhook. The store knows which messages wait
// and which process sends them. If a process leaves messages behind, another process on any host sends them: after a
// reload at once, after a crash two minutes later. Results are kept in the store. Rounds never wait for a mail server,
// and sending never waits for the store.
//
// # Files
//
// watch.go and trend.go read the topics, judge.go has the rules, cause.go the causes that they find, open.go the life
// of an alert, handled.go who takes care of one. route.go, tell.go and people.go decide who is notified and when,
// compose.go and message.go about what; dead.go and deaths.go handle dead jobs. outbox.go and send.go send; store.go,
// told.go and deliveries.go store.
package alert
