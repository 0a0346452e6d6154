package registry

import (
	"iter"

	"github.com/tidwall/btree"
)

// Table is an immutable list of values by name, in the order of names. A changed copy shares what did not change, so
// that it costs the same however long the table is. The zero value is empty.
type Table[V any] struct{ tree *btree.Map[string, V] }

// NewTopics is a table of topics, for tests and for lists that are made by hand.
func NewTopics(topics ...*Topic) Table[*Topic] {
	table := Table[*Topic]{}.edit()
	for _, t := range topics {
		table.tree.Set(t.Name, t)
	}
	return table
}

// edit is a copy whose tree may be changed until it is published. Readers of the original go on undisturbed.
func (t Table[V]) edit() Table[V] {
	if t.tree == nil {
		return Table[V]{btree.NewMap[string, V](0)}
	}
	return Table[V]{t.tree.Copy()}
}

// With is a copy with a value of a name, new or changed.
func (t Table[V]) With(name string, v V) Table[V] {
	next := t.edit()
	next.tree.Set(name, v)
	return next
}

// Get is the value of a name; the zero value if there is none.
func (t Table[V]) Get(name string) V {
	if t.tree == nil {
		var none V
		return none
	}
	v, _ := t.tree.Get(name)
	return v
}

// Len is how many there are.
func (t Table[V]) Len() int {
	if t.tree == nil {
		return 0
	}
	return t.tree.Len()
}

// All are all names and values.
func (t Table[V]) All() iter.Seq2[string, V] { return t.From("") }

// From are the names from one on, and their values.
func (t Table[V]) From(name string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if t.tree != nil {
			t.tree.Ascend(name, yield)
		}
	}
}

// Names are all names.
func (t Table[V]) Names() []string {
	if t.tree == nil {
		return nil
	}
	return t.tree.Keys()
}
