package handover

// ringInitial is the capacity a ring starts with; a power of two, as the
// indices wrap by masking.
const ringInitial = 64

// ring is a growable circular buffer. It doubles when full and never shrinks,
// so that a queue that has seen its peak allocates nothing more.
type ring[T any] struct {
	items []T // length is a power of two
	head  int // index of the oldest element
	size  int
}

func newRing[T any]() ring[T] { return ring[T]{items: make([]T, ringInitial)} }

// push appends v and reports whether the ring had to grow.
func (r *ring[T]) push(v T) (grew bool) {
	if r.size == len(r.items) {
		r.grow(r.size + 1)
		grew = true
	}
	r.items[(r.head+r.size)&(len(r.items)-1)] = v
	r.size++
	return grew
}

// pushAll appends vs and reports whether the ring had to grow.
func (r *ring[T]) pushAll(vs []T) (grew bool) {
	if need := r.size + len(vs); need > len(r.items) {
		r.grow(need)
		grew = true
	}
	tail := (r.head + r.size) & (len(r.items) - 1)
	n := copy(r.items[tail:], vs)
	copy(r.items, vs[n:])
	r.size += len(vs)
	return grew
}

// grow doubles the capacity until it holds need elements and unwraps them.
func (r *ring[T]) grow(need int) {
	capacity := len(r.items)
	for capacity < need {
		capacity *= 2
	}
	items := make([]T, capacity)
	n := copy(items, r.items[r.head:min(r.head+r.size, len(r.items))])
	copy(items[n:], r.items[:r.size-n])
	r.items, r.head = items, 0
}

// pop removes the oldest element.
func (r *ring[T]) pop() (v T, ok bool) {
	if r.size == 0 {
		return v, false
	}
	var zero T
	v, r.items[r.head] = r.items[r.head], zero
	r.head = (r.head + 1) & (len(r.items) - 1)
	r.size--
	return v, true
}

// popAll moves up to len(buf) elements into buf, in at most two spans, and
// clears their places so that the ring keeps nothing alive.
func (r *ring[T]) popAll(buf []T) int {
	n := min(r.size, len(buf))
	first := r.items[r.head:min(r.head+n, len(r.items))]
	second := r.items[:n-len(first)]
	copy(buf, first)
	copy(buf[len(first):], second)
	clear(first)
	clear(second)
	r.head = (r.head + n) & (len(r.items) - 1)
	r.size -= n
	return n
}
