package page

import (
	"strings"

	"github.com/wakecall/wakecall/internal/log/printable"
)

// FirstCurl returns a command line that pushes a first job with the token in a file.
func FirstCurl(api, topic, tokenFile string) string {
	return CurlLine(api, topic, "$(cat "+printable.Word(tokenFile)+")", `{"body":{"hello":"world"},"delay":"5s"}`)
}

// CurlLine returns a command line that pushes a job. body must be JSON without single quotes.
func CurlLine(api, topic, token, body string) string {
	url := strings.TrimRight(api, "/") + "/v1/topics/" + topic + "/jobs"
	return "curl " + printable.Word(url) + ` -H "Authorization: Bearer ` + token + `" -d '` + body + `'`
}
