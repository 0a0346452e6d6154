// Program generated pushes a job and reads it with the client that oapi-codegen made in the package api.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"generated/api"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, token string) error {
	c, err := api.NewClientWithResponses(url, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	var delay api.Duration
	if err := delay.FromDurationText("1h"); err != nil {
		return err
	}
	callback := "http://127.0.0.1:9/"
	topic := api.TopicInput{CallbackUrl: &callback}
	if r, err := c.PutTopicWithResponse(ctx, "shop.generated", nil, topic); err != nil || r.JSON201 == nil {
		return fmt.Errorf("put topic: %w", refused(err, r.Body))
	}
	id := api.ID("order-42")
	push := api.Push{Id: &id, Body: map[string]int{"order": 42}, Delay: &delay}
	pushed, err := c.PushJobWithResponse(ctx, "shop.generated", nil, push)
	if err != nil || pushed.JSON201 == nil {
		return fmt.Errorf("push: %w", refused(err, pushed.Body))
	}
	got, err := c.GetJobWithResponse(ctx, "shop.generated", id)
	if err != nil || got.JSON200 == nil {
		return fmt.Errorf("get: %w", refused(err, got.Body))
	}
	job := got.JSON200
	due, err := time.Parse(time.RFC3339, job.DueAt)
	if err != nil || time.Until(due) < time.Minute || job.State != api.PushedStateDelayed || job.Id != id {
		return fmt.Errorf("read %+v, %w", job, err)
	}
	jobs := []api.BatchPush{{Topic: "shop.generated", Body: 1}}
	batch, err := c.PushJobsWithResponse(ctx, nil, api.PushJobsJSONRequestBody{Jobs: jobs})
	if err != nil || batch.JSON200 == nil || len(batch.JSON200.Results) != 1 {
		return fmt.Errorf("push a batch: %w", refused(err, batch.Body))
	}
	missing, err := c.GetJobWithResponse(ctx, "shop.generated", "none")
	if err != nil || missing.ApplicationproblemJSON404 == nil ||
		missing.ApplicationproblemJSON404.Code != "job_not_found" {
		return fmt.Errorf("get no job: %w", refused(err, missing.Body))
	}
	fmt.Println("pushed and read", job.Id)
	return nil
}

func refused(err error, body []byte) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("unexpected answer %s", body)
}
