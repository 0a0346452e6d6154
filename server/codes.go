package server

import "net/http"

// Code says what kind of problem an answer is, one code for each thing to be done about it. Programs may rely on codes,
// unlike on the text of a problem.
type Code string

// The codes. The API page and the OpenAPI description list each, with what to do about it.
const (
	codeInvalid          Code = "invalid" // correct the request; field names what is wrong
	codeTooLarge         Code = "too_large"
	codeTooSlow          Code = "too_slow"
	codeUnauthorized     Code = "unauthorized"
	codeForbidden        Code = "forbidden"
	codeNotFound         Code = "not_found" // the route, or something without a code of its own
	codeTopicNotFound    Code = "topic_not_found"
	codeJobNotFound      Code = "job_not_found"
	codeTokenNotFound    Code = "token_not_found"
	codeAlertNotFound    Code = "alert_not_found"
	codeTopicOffline     Code = "topic_offline"
	codeTopicHasJobs     Code = "topic_has_jobs"
	codeTopicInUse       Code = "topic_in_use" // by schedules
	codeTopicNotPull     Code = "topic_not_pull"
	codeTopicChanged     Code = "topic_changed"
	codeJobExists        Code = "job_exists"
	codeJobRunning       Code = "job_running"
	codeJobDead          Code = "job_dead"
	codeJobNotEnded      Code = "job_not_ended"
	codeJobChanged       Code = "job_changed"
	codeJobGone          Code = "job_gone"  // while a push waited for its end
	codeBodyGone         Code = "body_gone" // of a remembered job
	codeGroupClosed      Code = "group_closed"
	codeScheduleNotFound Code = "schedule_not_found"
	codeScheduleExists   Code = "schedule_exists"
	codeScheduleLimit    Code = "schedule_limit"
	codeTaskNotFound     Code = "task_not_found"
	codeTaskOverlaps     Code = "task_overlaps" // another task may act on the same dead jobs
	codeTaskLimit        Code = "task_limit"
	codeLeaseOver        Code = "lease_over"
	codeClockAdvancing   Code = "clock_advancing" // of an installation for tests
	codeWrongHost        Code = "wrong_host"      // among hosts only
	codeRateLimited      Code = "rate_limited"
	codeQuotaExceeded    Code = "quota_exceeded"  // of the token
	codeUnavailable      Code = "unavailable"     // nothing was changed
	codeUnknown          Code = "outcome_unknown" // it may have been done
	codeUnconfirmed      Code = "unconfirmed"     // it was done, but is not yet as durable as the topic requires
	codeInternal         Code = "internal"
)

// codeOf returns the code of a problem that has none of its own.
func codeOf(status int) Code {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return codeTooLarge
	case http.StatusRequestTimeout:
		return codeTooSlow
	case http.StatusUnauthorized:
		return codeUnauthorized
	case http.StatusForbidden:
		return codeForbidden
	case http.StatusNotFound:
		return codeNotFound
	case http.StatusTooManyRequests:
		return codeRateLimited
	case http.StatusServiceUnavailable:
		return codeUnavailable
	}
	if status >= http.StatusInternalServerError {
		return codeInternal
	}
	return codeInvalid
}
