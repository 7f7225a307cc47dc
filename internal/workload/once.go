package workload

import (
	"context"
	"io"
	"time"

	"contend/internal/recording"
)

// RunOnce runs a workload for one window and returns its result, with the
// verdict over every message of the run. An invalid run is no error: see the result's Verify.
func RunOnce(ctx context.Context, run func(context.Context, *Conversation) error, minimum time.Duration) (*recording.WorkloadResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	eventsIn, eventsOut := io.Pipe()
	commandsIn, commandsOut := io.Pipe()
	ran := make(chan error, 1)
	go func() {
		ran <- run(ctx, NewConversation(commandsIn, eventsOut))
		eventsOut.Close()
		commandsIn.Close()
	}()
	result, err := NewConversation(eventsIn, commandsOut).MeasureOnce(minimum)
	if err != nil {
		cancel()
		eventsIn.Close()
		commandsOut.Close()
		<-ran
		return nil, err
	}
	return result, <-ran
}
