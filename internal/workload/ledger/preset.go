package ledger

import (
	"fmt"
	"runtime"
	"slices"
)

// presets are the reference's scenarios, as far as one subscription goes. The
// numbers of messages are not theirs, which would take a minute and more here,
// but windows of 20 times what is in flight, and 3 times that to warm up. Their publishers are
// event loops, two a processor.
var presets = map[string]func(*Options){
	// iot-telemetry-max-rate: unlimited.
	"max-rate": func(o *Options) {
		o.Producers, o.Consumers, o.InFlight, o.Payload, o.Rate = 500, 20, 100_000, 128, 0
		o.Loops = 2 * runtime.GOMAXPROCS(0)
	},
	// iot-telemetry-high-rate: paced. There five applications have ten consumers
	// each; here one has.
	"high-rate": func(o *Options) {
		o.Producers, o.Consumers, o.InFlight, o.Payload, o.Rate = 500, 10, 10_000, 64, 30_000
		o.Loops = 2 * runtime.GOMAXPROCS(0)
	},
}

// A preset is the flag that applies one. Its value reads as empty: what it set
// are the other flags' values, which say all of it to a child.
type preset struct{ options *Options }

func (preset) String() string { return "" }
func (preset) Type() string   { return "name" }

func (p preset) Set(name string) error {
	if name == "" {
		return nil
	}
	apply := presets[name]
	if apply == nil {
		names := []string{}
		for name := range presets {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("%q is none of %v", name, names)
	}
	apply(p.options)
	return nil
}
