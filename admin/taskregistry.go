package admin

import (
	"context"
	"errors"

	"github.com/wakecall/wakecall/registry"
)

// taskRegistry is the registry as far as it keeps tasks.
type taskRegistry interface {
	CreateTask(ctx context.Context, t registry.Task) (uint64, error)
	UpdateTask(ctx context.Context, t registry.Task) error
	GetTask(ctx context.Context, id uint64) (*registry.Task, error)
	ListTasks(ctx context.Context, limit int) ([]registry.Task, error)
	CancelTask(ctx context.Context, actor string, id uint64) error
}

// registryTasks keeps tasks in the registry.
type registryTasks struct{ registry taskRegistry }

// RegistryTasks keeps tasks in the registry, so that they go on after a restart.
func RegistryTasks(r *registry.Registry) TaskStore { return registryTasks{r} }

func toRegistry(t Task) registry.Task {
	return registry.Task{
		ID: t.ID, Kind: t.Kind, Params: t.Params, State: string(t.State), Done: t.Done, Total: t.Total, Errors: t.Errors, Error: t.Error,
		Actor: t.Actor, Host: t.Host, CancelRequested: t.CancelRequested, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}

func fromRegistry(t registry.Task) Task {
	return Task{
		ID: t.ID, Kind: t.Kind, Params: t.Params, State: TaskState(t.State), Done: t.Done, Total: t.Total, Errors: t.Errors, Error: t.Error,
		Actor: t.Actor, Host: t.Host, CancelRequested: t.CancelRequested, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}

// noTask makes the registry's error the one of this package.
func noTask(err error) error {
	if errors.Is(err, registry.ErrNoTask) {
		return ErrNoTask
	}
	return err
}

func (s registryTasks) CreateTask(ctx context.Context, t Task) (uint64, error) {
	return s.registry.CreateTask(ctx, toRegistry(t))
}

func (s registryTasks) UpdateTask(ctx context.Context, t Task) error {
	return noTask(s.registry.UpdateTask(ctx, toRegistry(t)))
}

func (s registryTasks) GetTask(ctx context.Context, id uint64) (*Task, error) {
	is, err := s.registry.GetTask(ctx, id)
	if err != nil {
		return nil, noTask(err)
	}
	t := fromRegistry(*is)
	return &t, nil
}

func (s registryTasks) ListTasks(ctx context.Context, limit int) ([]Task, error) {
	rows, err := s.registry.ListTasks(ctx, limit)
	if err != nil {
		return nil, err
	}
	list := make([]Task, len(rows))
	for i, row := range rows {
		list[i] = fromRegistry(row)
	}
	return list, nil
}

func (s registryTasks) CancelTask(ctx context.Context, actor string, id uint64) error {
	return noTask(s.registry.CancelTask(ctx, actor, id))
}
