package callback

// appendEvent appends the attributes of a callback as a CloudEvent 1.0 in binary mode. What identifies the event, source
// and id, is the same for every attempt of a job, and another one if the job's id is pushed again.
func appendEvent(headers []field, r *Request) []field {
	return append(headers,
		field{"Ce-Specversion", "1.0"},
		field{"Ce-Id", messageID(r)},
		field{"Ce-Source", "/v1/topics/" + r.Topic},
		field{"Ce-Type", r.Topic},
		field{"Ce-Subject", escapeAttribute(r.ID)},
		field{"Ce-Time", r.DueAt.UTC().Format(instant)},
	)
}

// escapeAttribute percent-encodes an attribute's value as the HTTP binding of CloudEvents does (3.1.3.2).
func escapeAttribute(value string) string {
	return escape(value, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' })
}
