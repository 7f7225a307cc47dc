package recording

import (
	"encoding/binary"
	"fmt"
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

// checkParsed refuses an unpacked profile that would take more than limit bytes
// of memory to parse.
func checkParsed(b []byte, limit int64) error {
	var total int64
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
		return err
	}
	if total > limit {
		return fmt.Errorf("parsing it would take about %d MiB of memory (%d samples), more than the %d MiB that contend allows a profile: refused",
			total>>20, samples, limit>>20)
	}
	return nil
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
