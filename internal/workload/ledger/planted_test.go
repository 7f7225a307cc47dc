package ledger

import (
	"testing"

	"contend/internal/recording"
	"contend/internal/workload"
)

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
		l := &load{options: o, tracker: workload.NewTracker(o.Devices), ranges: newHashRanges(o.Consumers)}
		c := &consumer{load: l, id: 0, recorder: workload.NewRecorder()}
		l.consumers = []*consumer{c}
		p := newProducer(&load{options: o, publish: []*workload.Recorder{workload.NewRecorder()}}, 0, nil)
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
