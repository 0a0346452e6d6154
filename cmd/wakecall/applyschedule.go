package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/topicfile"
)

// compareSchedules returns what has to be done for the schedules in the files, and which schedules --prune deletes. It
// refuses to delete topics that schedules would still use.
func (ap *apply) compareSchedules(
	ctx context.Context, wanted []topicfile.Schedule, goneTopics []change,
) (changes, gone []change, err error) {
	if len(wanted) == 0 && len(goneTopics) == 0 {
		return nil, nil, nil
	}
	list, err := ap.api.Schedules(ctx, "")
	if len(wanted) == 0 && errors.Is(err, client.ErrForbidden) {
		return nil, nil, nil // the server does not delete a topic that schedules use
	}
	if err != nil {
		return nil, nil, err
	}
	current, uses := map[string]client.Schedule{}, map[string]string{} // uses has the topic of each, as it will be
	for _, s := range list {
		current[s.Name], uses[s.Name] = s, s.Topic
	}
	named := func(name string) change { return change{Schedule: name} }
	if changes, gone, err = compare(wanted, current, scheduleDiffers, named, ap.prune); err != nil {
		return nil, nil, err
	}
	for _, ch := range gone {
		delete(uses, ch.Schedule)
	}
	for _, w := range wanted {
		uses[w.Name] = w.Is.Topic
	}
	for _, ch := range goneTopics {
		if users := usersOf(ch.Topic, uses); len(users) > 0 {
			return nil, nil, fmt.Errorf("topic %s is in no file, but schedules use it: %s. Give them another topic or "+
				"delete them first; nothing was changed", ch.Topic, strings.Join(users, ", "))
		}
	}
	return changes, gone, nil
}

// usersOf returns the schedules that use a topic, or a topic of a namespace, sorted.
func usersOf(topic string, uses map[string]string) (users []string) {
	for schedule, used := range uses {
		if registry.MatchesPattern(topic, used) {
			users = append(users, schedule)
		}
	}
	slices.Sort(users)
	return users
}

// scheduleDiffers returns the fields in which the server's schedule differs from the file's.
func scheduleDiffers(w topicfile.Schedule, s client.Schedule) ([]string, error) {
	current, err := definition(&s)
	if err != nil {
		return nil, err
	}
	return registry.DifferingFields(current, w.Is), nil
}

// definition returns the server's schedule as the registry has it.
func definition(s *client.Schedule) (*registry.Schedule, error) {
	return asStored("schedule", s.Name, s, registry.DecodeSchedule)
}
