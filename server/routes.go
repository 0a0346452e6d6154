package server

import (
	"strings"

	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/registry"
)

// Rights that routes need.
const (
	mayPush   = registry.RightPush   // push, change, run and delete single jobs
	mayRead   = registry.RightRead   // read topics, jobs, counts and shards
	mayManage = registry.RightManage // change topics, read and handle alerts, re-drive and delete dead jobs in bulk

	mayConsume  = registry.RightConsume  // reserve jobs of pull topics and end their leases
	maySchedule = registry.RightSchedule // change schedules
	mayTokens   = registry.RightTokens   // list, create and revoke tokens within the token's own rights
)

// routes registers the routes that openapi.yaml describes; a test compares the two.
func (s *Server) routes() {
	e := s.echo
	e.GET("/healthz", s.alive)
	e.GET("/readyz", s.ready)
	e.GET("/openapi.yaml", s.openAPI)
	e.GET("/docs", s.docsPage)
	e.GET("/docs/:file", s.docsAsset)

	const topic, job = "/v1/topics/:topic", "/v1/topics/:topic/jobs/:id"
	e.POST("/v1/jobs", s.onAnyTopic(mayPush, s.pushBatch))
	e.GET(topic+"/jobs", s.onTopic(mayRead, s.listJobs, append(deadFilterNames, "state", "limit", "cursor")...))
	e.POST(topic+"/jobs", s.push(s.pushJSON))
	e.PUT(job, s.push(s.pushRaw, rawOptions...))
	e.GET(job, s.onJob(mayRead, s.getJob))
	e.PATCH(job, s.onJob(mayPush, s.writing(s.changeJob)))
	e.DELETE(job, s.onJob(mayPush, s.writing(s.deleteJob)))
	e.POST(job+"/run", s.onJob(mayPush, s.writing(s.runJob)))
	e.POST(job+"/resend", s.onJob(mayPush, s.writing(s.resendJob)))
	e.POST(topic+"/dead/retry", s.onTopic(mayManage, s.writing(s.retryDead)))
	e.POST(topic+"/dead/delete", s.onTopic(mayManage, s.writing(s.deleteDead)))
	e.POST(topic+"/reserve", s.onTopic(mayConsume, s.reserveOf))
	e.POST("/v1/reserve", s.onAnyTopic(mayConsume, s.reserveAny))
	e.POST("/v1/leases", s.onAnyTopic(mayConsume, s.writing(s.endLeases)))
	for _, as := range leaseVerbs {
		e.POST("/v1/leases/:lease/"+as.name, s.onAnyTopic(mayConsume, s.writing(s.endLease(as))))
	}
	e.GET(topic+"/stats", s.onTopic(mayRead, s.stats))
	e.GET(topic+"/forecast", s.onTopic(mayRead, s.forecast))

	const group = "/v1/groups/:group"
	e.GET(group, s.onGroup(mayRead, s.getGroup, "limit"))
	e.PATCH(group, s.onGroup(mayPush, s.writing(s.moveGroup)))
	e.DELETE(group, s.onGroup(mayPush, s.writing(s.cancelGroup), "close", "topics"))

	const schedule = "/v1/schedules/:schedule"
	e.GET("/v1/schedules", s.onAnyTopic(mayRead, s.listSchedules, "topic", "limit", "cursor"))
	e.GET(schedule, s.onSchedule(s.getSchedule, mayRead))
	e.PUT(schedule, s.onAnyTopic(maySchedule, s.writing(s.putSchedule)))
	e.DELETE(schedule, s.onSchedule(s.writing(s.deleteSchedule), maySchedule))
	e.POST(schedule+"/pause", s.onSchedule(s.writing(s.pauseSchedule), maySchedule))
	e.POST(schedule+"/resume", s.onSchedule(s.writing(s.resumeSchedule), maySchedule))
	e.POST(schedule+"/run", s.onSchedule(s.writing(s.runSchedule), maySchedule, mayPush))
	e.POST(schedule+"/backfill", s.onSchedule(s.writing(s.backfillSchedule), maySchedule, mayPush))

	const task = "/v1/tasks/:task"
	e.GET("/v1/tasks", s.onAnyTopic(mayManage, s.listTasks, "limit"))
	e.POST("/v1/tasks", s.onAnyTopic(mayManage, s.startTask))
	e.GET(task, s.onTask(s.getTask))
	e.DELETE(task, s.onTask(s.cancelTask))

	e.GET("/v1/topics", s.onAnyTopic(mayRead, s.listTopics, "limit", "cursor", "prefix", "state", "owner"))
	e.PUT("/v1/topics", s.onAnyTopic(mayManage, s.putTopics))
	e.GET(topic, s.onTopic(mayRead, s.getTopic))
	e.PUT(topic, s.authed(s.putTopic))
	e.PATCH(topic, s.onTopic(mayManage, s.patchTopic))
	e.POST(topic+"/pause", s.onTopic(mayManage, s.pauseTopic))
	e.POST(topic+"/resume", s.onTopic(mayManage, s.resumeTopic))
	e.DELETE(topic, s.onTopic(mayManage, s.deleteTopic, "drop", "force"))
	e.GET(search.Path, s.search)
	e.GET("/v1/shards", s.onAnyTopic(mayRead, s.shards))

	const relay = "/v1/relays/:relay"
	e.GET("/v1/relays", s.onAnyTopic(mayRead, s.listRelays))
	e.PUT(relay, s.onRelay(s.putRelay))
	e.DELETE(relay, s.onRelay(s.deleteRelay))

	const open = "/v1/alerts/:alert"
	e.GET("/v1/alerts", s.onAnyTopic(mayManage, s.listAlerts))
	e.POST(open+"/ack", s.onAnyTopic(mayManage, s.ackAlert))
	e.POST(open+"/mute", s.onAnyTopic(mayManage, s.muteAlert))
	e.POST(open+"/unmute", s.onAnyTopic(mayManage, s.unmuteAlert))

	e.GET("/v1/tokens", s.onAnyTopic(mayTokens, s.listTokens))
	e.POST("/v1/tokens", s.onAnyTopic(mayTokens, s.createToken))
	e.PATCH("/v1/tokens/:token", s.onAnyTopic(mayTokens, s.setQuotas))
	e.DELETE("/v1/tokens/:token", s.onAnyTopic(mayTokens, s.revokeToken))
	if s.opts.Dev != nil {
		s.devRoutes()
	}
}

// Routes lists the routes as "METHOD /path/{parameter}".
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.echo.Routes() {
		parts := strings.Split(r.Path, "/")
		for i, part := range parts {
			if name, ok := strings.CutPrefix(part, ":"); ok {
				parts[i] = "{" + name + "}"
			}
		}
		routes = append(routes, r.Method+" "+strings.Join(parts, "/"))
	}
	return routes
}
