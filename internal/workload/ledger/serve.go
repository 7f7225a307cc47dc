package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"contend/internal/recording"
	"contend/internal/workload"
)

// Serves says that this process is to be the broker alone.
func (o *Options) Serves() bool { return o.Listen != "" }

// Serve is the broker as a process of its own, without a load generator: it
// listens on Options.Listen until one has connected, been served and left, or
// ctx ends. It says on log where it listens. Where journals are kept it reads them
// back in the end; that they lack what was acknowledged is an error.
func (o *Options) Serve(ctx context.Context, log io.Writer) (err error) {
	settings := *o
	settings.Network = "tcp"
	s := &session{options: settings, events: make(chan workload.Event)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer func() {
		err = s.blame(err)
		s.close()
	}()
	s.spin = workload.CalibrateSpin()
	if s.broker, err = newBroker(settings, s.spin, s.cancel); err != nil {
		return err
	}
	if s.profile, err = settings.Profiling.Start(); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", settings.Listen); err != nil {
		return fmt.Errorf("the broker cannot listen: %w", err)
	}
	if err := s.startBookies(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(log, "broker listening on %s\n", s.listener.Addr()); err != nil {
		return err
	}
	if err := s.broker.accept(s.ctx, s.listener, 0); err != nil {
		return err
	}
	select {
	case <-s.broker.left():
		return s.reportJournals(log)
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// reportJournals says how many entries the journals hold of those acknowledged.
func (s *session) reportJournals(log io.Writer) error {
	if s.journals == "" {
		return nil
	}
	acknowledged, missing, err := s.readBackJournals()
	if err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d acknowledged entries are not in the journals, kept in %s", missing, acknowledged, s.journals)
	}
	_, err = fmt.Fprintf(log, "%d entries read back from the journals\n", acknowledged)
	return err
}

// connect is the load generator as a process of its own, against a broker that
// serves at Options.Connect. It knows nothing of the executor, so it judges the
// messages only.
func connect(ctx context.Context, o Options, lines *workload.Conversation) error {
	o.Network = "tcp"
	l, err := newLoad(childSetup{Options: o, Address: o.Connect})
	if err != nil {
		return err
	}
	l.label = func(r *recording.WorkloadResult) {
		r.Schema, r.Name, r.Arm, r.Settings = recording.Schema, name, o.Arm, o.Settings()
		r.Settings["connect"] = strconv.FormatBool(true)
	}
	err = l.run(lines.Commands(ctx), lines)
	if errors.Is(err, errGone) && ctx.Err() != nil {
		return fmt.Errorf("handover: interrupted: %w", ctx.Err())
	}
	return err
}
