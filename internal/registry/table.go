package registry

import (
	"iter"

	"github.com/tidwall/btree"
)

// Table is an immutable list of values, ordered by name. A changed copy shares what did not change, so its cost is
// independent of the length of the table. The zero value is empty.
type Table[V any] struct{ tree *btree.Map[string, V] }

// NewTopics returns a table of topics, for lists that do not come from the database.
func NewTopics(topics ...*Topic) Table[*Topic] {
	table := Table[*Topic]{}.edit()
	for _, t := range topics {
		table.tree.Set(t.Name, t)
	}
	return table
}

// edit returns a copy whose tree may be changed until it is published. Readers of the original are not affected.
func (t Table[V]) edit() Table[V] {
	if t.tree == nil {
		return Table[V]{btree.NewMap[string, V](0)}
	}
	return Table[V]{t.tree.Copy()}
}

// With returns a copy with a new or changed value for a name.
func (t Table[V]) With(name string, v V) Table[V] {
	next := t.edit()
	next.tree.Set(name, v)
	return next
}

// Get returns the value of a name, or the zero value if there is none.
func (t Table[V]) Get(name string) V {
	if t.tree == nil {
		var none V
		return none
	}
	v, _ := t.tree.Get(name)
	return v
}

// Len returns the number of values.
func (t Table[V]) Len() int {
	if t.tree == nil {
		return 0
	}
	return t.tree.Len()
}

// All returns all names and values.
func (t Table[V]) All() iter.Seq2[string, V] { return t.From("") }

// From returns the names from the given one onwards, with their values.
func (t Table[V]) From(name string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if t.tree != nil {
			t.tree.Ascend(name, yield)
		}
	}
}

// Names returns all names.
func (t Table[V]) Names() []string {
	if t.tree == nil {
		return nil
	}
	return t.tree.Keys()
}
