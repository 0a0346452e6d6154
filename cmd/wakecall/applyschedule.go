package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	current, uses := map[string]*client.Schedule{}, map[string]string{} // uses has the topic of each, as it will be
	for i := range list {
		current[list[i].Name] = &list[i]
	}
	for _, w := range wanted {
		ch, err := compareSchedule(w, current[w.Name])
		if err != nil {
			return nil, nil, fmt.Errorf("schedule %s: %w", w.Name, err)
		}
		changes = append(changes, ch)
		uses[w.Name] = w.Topic
		delete(current, w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if ap.prune && len(wanted) > 0 {
			gone = append(gone, change{Schedule: name, Done: "deleted"})
			continue
		}
		uses[name] = current[name].Topic
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

// compareSchedule returns what has to be done for a schedule in the files. was is the server's, nil if there is none.
func compareSchedule(w topicfile.Schedule, was *client.Schedule) (ch change, err error) {
	ch = change{Schedule: w.Name, Done: "created"}
	if was == nil {
		return ch, nil
	}
	current, err := definition(was)
	if err != nil {
		return ch, err
	}
	ch.Done = "changed"
	if ch.Fields = registry.DifferingScheduleFields(current, w.Schedule); len(ch.Fields) == 0 {
		ch.Done = "unchanged"
	}
	return ch, nil
}

// definition returns the server's schedule as the registry has it.
func definition(s *client.Schedule) (*registry.Schedule, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	d, err := registry.DecodeSchedule(s.Name, b)
	if err != nil {
		return nil, fmt.Errorf("read the server's schedule: %w", err)
	}
	return d, nil
}
