package topics

import (
	"strings"
)

const goProgram = `package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/wakecall/wakecall/client"
)

func main() {
	ctx := context.Background()
	c, err := client.New(client.Options{URL: "{api}", Token: os.Getenv("WAKECALL_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	job, err := c.Push(ctx, "{topic}", client.Push{
		ID:    "order-42",
		Body:  json.RawMessage(` + "`" + `{"order":42}` + "`" + `),
		Delay: client.After(30 * time.Minute),
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s is due at %s", job.ID, job.DueAt)
}
`

// goSnippet returns a program that pushes a job. Addresses and topic names contain nothing that needs escaping in Go.
func goSnippet(api, topic string) string {
	return strings.NewReplacer("{api}", api, "{topic}", topic).Replace(goProgram)
}
