package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

// Bounds on a profile, so that a damaged or hostile file ends in an error and
// not in an exhausted machine. The size alone bounds little: two bytes of an
// empty sample become 136 in memory, and gzip packs a thousand such into five.
// So the memory that parsing takes is summed up before anything is parsed.
// reports/large-inputs.md has what a profile near the bounds costs in all.
const (
	maxUnpacked = 256 << 20
	maxParsed   = 1280 << 20 // of the parsed profile, estimated
)

// What parts of a profile take in memory: the structs of package profile (112
// to 128 bytes), the pointer to each, and a number decoded and kept for every
// varint.
const (
	costMessage = 136
	costNumber  = 16
	costLabels  = 352 // maps for the labels of a sample
)

// Field numbers of profile.proto.
const (
	fieldSample  = 2
	fieldStrings = 6
	sampleLabel  = 3
)

// checkParsed estimates the memory that parsing an unpacked profile takes, and
// refuses one that would take more than limit bytes.
func checkParsed(b []byte, limit int64) (total int64, _ error) {
	samples := 0
	err := eachField(b, func(field int, payload []byte) {
		switch field {
		case fieldStrings:
			total += 32 + int64(len(payload))
			return
		case fieldSample:
			samples++
			labels := false
			_ = eachField(payload, func(field int, _ []byte) { labels = labels || field == sampleLabel }) // what is damaged is found in parsing
			if labels {
				total += costLabels
			}
		}
		total += costMessage + costNumber*numbers(payload)
	})
	if err != nil {
		return 0, err
	}
	if total > limit {
		return total, fmt.Errorf("parsing it would take about %d MiB of memory (%d samples), more than the %d MiB that contend allows a profile: refused",
			total>>20, samples, limit>>20)
	}
	return total, nil
}

// Budget bounds the memory that several profiles take together, by the same
// estimate that bounds each. The zero value is that of one command: two of the
// largest profiles, and as much again.
type Budget struct {
	used  int64
	limit int64 // in place of maxTotal, in tests
}

const maxTotal int64 = 4 * maxParsed

// ProfileWithin reads one profile, unless the profiles read before on the same
// budget leave no room for it.
func (r *Recording) ProfileWithin(name string, b *Budget) (*profile.Profile, error) {
	limit := cmp.Or(b.limit, maxTotal)
	f, err := os.Open(r.profilePath(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, size, err := readProfile(f, maxUnpacked, min(maxParsed, limit-b.used))
	b.used += size
	if size <= maxParsed && b.used > limit {
		return nil, fmt.Errorf("%s: the profiles up to this one take about %d MiB of memory, more than the %d MiB that contend allows a command: give fewer runs",
			f.Name(), b.used>>20, limit>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return p, nil
}

// numbers is how many varints a payload can hold at most.
func numbers(payload []byte) (n int64) {
	for _, c := range payload {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// eachField calls fn for every length-delimited field of a message.
func eachField(b []byte, fn func(field int, payload []byte)) error {
	errCut := fmt.Errorf("not a pprof profile, or a damaged one: it ends within a field")
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errCut
		}
		b = b[n:]
		size := uint64(0)
		switch tag & 7 {
		case 0: // varint
			if _, n = binary.Uvarint(b); n <= 0 {
				return errCut
			}
			size = uint64(n)
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			if size, n = binary.Uvarint(b); n <= 0 || size > uint64(len(b)-n) {
				return errCut
			}
			b = b[n:]
			fn(int(tag>>3), b[:size])
		default:
			return fmt.Errorf("not a pprof profile, or a damaged one: wire type %d", tag&7)
		}
		if size > uint64(len(b)) {
			return errCut
		}
		b = b[size:]
	}
	return nil
}
