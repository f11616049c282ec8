package native

// #include <stdlib.h>
import "C"

import "unsafe"

// vector is a growing array in C memory, of elements without pointers.
type vector[T any] struct {
	items []T // over C memory; nil before the first element
}

// grow makes room for n more elements.
func (v *vector[T]) grow(n int) {
	need := len(v.items) + n
	if need <= cap(v.items) {
		return
	}
	capacity := max(need, 2*cap(v.items), 64)
	var zero T
	fresh := unsafe.Slice((*T)(C.calloc(C.size_t(capacity), C.size_t(unsafe.Sizeof(zero)))), capacity)
	if fresh == nil {
		panic("out of memory for a buffer of the kernel")
	}
	copy(fresh, v.items)
	length := len(v.items)
	v.free()
	v.items = fresh[:length]
}

func (v *vector[T]) push(item T) {
	v.grow(1)
	v.items = append(v.items, item)
}

// resize sets the length without touching elements that were there before.
func (v *vector[T]) resize(n int) {
	if n > len(v.items) {
		v.grow(n - len(v.items))
	}
	v.items = v.items[:n]
}

func (v *vector[T]) reset() { v.items = v.items[:0] }

func (v *vector[T]) pointer() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(v.items)) }

func (v *vector[T]) free() {
	if cap(v.items) > 0 {
		C.free(v.pointer())
	}
	v.items = nil
}
