package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sign returns the headers of Standard Webhooks 1.0.0: the HMAC-SHA256 of "id.timestamp.body" with each secret.
func sign(keys [][]byte, id string, now time.Time, body []byte) []field {
	ts := strconv.FormatInt(now.Unix(), 10)
	var sigs strings.Builder
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + ts + "."))
		mac.Write(body)
		if i > 0 {
			sigs.WriteByte(' ')
		}
		sigs.WriteString("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return []field{{"Webhook-Id", id}, {"Webhook-Timestamp", ts}, {"Webhook-Signature", sigs.String()}}
}

// messageID returns the same id for every attempt of a job, and a different one if the job's id is pushed again. It is
// a hash rather than the job's id, because the parts of the signed text are joined with dots.
func messageID(r *Request) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%d", r.Topic, r.ID, r.CreatedAt.UnixMilli())
	return "msg_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}
