package queue

// DownFor returns the names of the shards that may have a job and do not answer.
func (q *Queue) DownFor(topic, id string) (names []string) {
	for _, s := range q.order(topic, id) {
		if !s.Up() {
			names = append(names, s.Name())
		}
	}
	return names
}
