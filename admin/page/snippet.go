package page

import (
	"strings"
)

// CurlLine returns a command line that pushes a job. body must be JSON without single quotes.
func CurlLine(api, topic, token, body string) string {
	url := strings.TrimRight(api, "/") + "/v1/topics/" + topic + "/jobs"
	return "curl " + url + ` -H "Authorization: Bearer ` + token + `" -d '` + body + `'`
}
