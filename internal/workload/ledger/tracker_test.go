package ledger

import (
	"math/rand/v2"
	"testing"

	"contend/internal/recording"
)

func TestTracker(t *testing.T) {
	type message struct {
		device uint64
		seq    uint32
	}
	for name, test := range map[string]struct {
		received []message
		sent     []uint32
		want     trackerCounts
		lost     int64
	}{
		"in order":        {[]message{{0, 0}, {1, 0}, {0, 1}}, []uint32{2, 1}, trackerCounts{3, 0, 0}, 0},
		"duplicate":       {[]message{{0, 0}, {0, 0}, {0, 1}}, []uint32{2, 0}, trackerCounts{2, 1, 0}, 0},
		"reordered":       {[]message{{0, 1}, {0, 0}, {0, 2}}, []uint32{3, 0}, trackerCounts{3, 0, 1}, 0},
		"early twice":     {[]message{{0, 1}, {0, 1}, {0, 0}}, []uint32{2, 0}, trackerCounts{2, 1, 1}, 0},
		"late duplicate":  {[]message{{0, 1}, {0, 0}, {0, 1}}, []uint32{2, 0}, trackerCounts{2, 1, 1}, 0},
		"lost tail":       {[]message{{0, 0}, {1, 0}}, []uint32{3, 1}, trackerCounts{2, 0, 0}, 2},
		"lost in between": {[]message{{0, 0}, {0, 2}, {0, 3}}, []uint32{4, 0}, trackerCounts{3, 0, 2}, 1},
		"lost device":     {nil, []uint32{0, 5}, trackerCounts{}, 5},
	} {
		tr := newTracker(2)
		for _, m := range test.received {
			tr.observe(m.device, m.seq)
		}
		if got := tr.counts(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if got := tr.lost(test.sent); got != test.lost {
			t.Errorf("%s: lost %d, want %d", name, got, test.lost)
		}
	}
}

// Any permutation with repetitions is accounted for in full.
func TestTrackerCountsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rng.IntN(20)
		var received []uint32
		distinct := make(map[uint32]bool)
		for range 3 * n {
			seq := uint32(rng.IntN(n))
			received = append(received, seq)
			distinct[seq] = true
		}
		tr := newTracker(1)
		for _, seq := range received {
			tr.observe(0, seq)
		}
		c := tr.counts()
		if c.unique != int64(len(distinct)) || c.unique+c.duplicates != int64(len(received)) {
			t.Fatalf("%v: %+v", received, c)
		}
		if lost := tr.lost([]uint32{uint32(n)}); lost != int64(n-len(distinct)) {
			t.Fatalf("%v of %d: lost %d", received, n, lost)
		}
	}
}

// What a broken broker could do to messages must show in the verdict.
func TestConsumerCatchesPlantedFaults(t *testing.T) {
	o := Defaults()
	o.Consumers, o.Devices, o.Producers, o.InFlight = 2, 1000, 1, 1
	for name, test := range map[string]struct {
		plant func(m []wireMessage) []wireMessage
		want  recording.Verify
	}{
		"nothing":   {func(m []wireMessage) []wireMessage { return m }, recording.Verify{OK: true}},
		"duplicate": {func(m []wireMessage) []wireMessage { return append(m, m[1]) }, recording.Verify{Duplicated: 1}},
		"reorder":   {func(m []wireMessage) []wireMessage { m[1], m[2] = m[2], m[1]; return m }, recording.Verify{Reordered: 1}},
		"loss":      {func(m []wireMessage) []wireMessage { return m[:len(m)-1] }, recording.Verify{Lost: 1}},
		"overwritten payload": {
			func(m []wireMessage) []wireMessage { m[3].payload[8] ^= 1; return m },
			recording.Verify{Invalid: 1, Lost: 1},
		},
		"cut payload": {
			func(m []wireMessage) []wireMessage { m[3].payload = m[3].payload[:64]; return m },
			recording.Verify{Invalid: 1, Lost: 1},
		},
		"another consumer's key": {
			func(m []wireMessage) []wireMessage {
				other := uint64(0)
				for newHashRanges(2).owner(keyHash(other)) == 0 {
					other++
				}
				return append(m, makeMessage(o, other, 0))
			},
			recording.Verify{Invalid: 1},
		},
		"a device that does not exist": {
			func(m []wireMessage) []wireMessage { return append(m, makeMessage(o, 1_000_000, 0)) },
			recording.Verify{Invalid: 1},
		},
	} {
		device := uint64(0)
		for newHashRanges(2).owner(keyHash(device)) != 0 {
			device++
		}
		var messages []wireMessage
		for seq := range uint64(4) {
			messages = append(messages, makeMessage(o, device, seq))
		}
		l := &load{options: o, tracker: newTracker(o.Devices), ranges: newHashRanges(o.Consumers)}
		c := &consumer{load: l, id: 0, recorder: newRecorder()}
		l.consumers = []*consumer{c}
		p := newProducer(&load{options: o, publish: []*recorder{newRecorder()}}, 0, nil)
		p.sequence[device] = 4
		l.producers = []*producer{p}

		frame := encodeBatch(kindDeliver, 0, test.plant(messages))
		if err := c.receive(frame[frameHeader:]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := l.verify(true)
		got.Reason = ""
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func makeMessage(o Options, device, seq uint64) wireMessage {
	payload := make([]byte, o.Payload)
	putHeader(payload, header{device: device, seq: seq})
	return wireMessage{device, payload}
}
