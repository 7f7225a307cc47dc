package workload

import "testing"

func TestMurmur3(t *testing.T) {
	// Published vectors of MurmurHash3_x86_32 with seed 0.
	for data, want := range map[string]uint32{"": 0, "test": 0xba6bd213} {
		if got := Murmur3([]byte(data)); got != want {
			t.Errorf("Murmur3(%q) = %#x, want %#x", data, got, want)
		}
	}
}
