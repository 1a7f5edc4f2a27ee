package convert

// compact replaces repetition: attributes that all labels of a pool have move to the pool.
func (o *output) compact() {
}
