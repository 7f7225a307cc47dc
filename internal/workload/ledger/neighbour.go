package ledger

import (
	"time"

	"contend/internal/workload"
)

// neighbourTurn is how long a neighbour computes and then rests. It is shorter
// than a scheduler's time slice, so that a neighbour never queues for the CPU as
// a hog does, and long enough for hundreds of producers to meet a lock whose
// holder it has preempted.
const neighbourTurn = 2 * time.Millisecond

// runNeighbour is other work on the same host: it uses a core half of the time,
// and nothing else, until the broker is gone.
func runNeighbour(lines *workload.Conversation) error {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = lines.NextCommand() // only ever the end of the input
	}()
	turn := int(workload.CalibrateSpin() * float64(neighbourTurn/time.Microsecond))
	rest := time.NewTicker(2 * neighbourTurn)
	defer rest.Stop()
	for {
		workload.Spin(turn)
		select {
		case <-gone:
			return nil
		case <-rest.C:
		}
	}
}
