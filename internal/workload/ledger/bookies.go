package ledger

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"contend/internal/recording"
	"contend/internal/workload"
)

// makeJournalDir makes this run's own folder in the one the user named.
func (s *session) makeJournalDir() error {
	if s.options.JournalDir == "" {
		return nil
	}
	dir, err := os.MkdirTemp(s.options.JournalDir, "ledger-*")
	if err != nil {
		return fmt.Errorf("making a folder for the journals: %w", err)
	}
	s.journals, s.options.JournalDir = dir, dir
	return nil
}

// startBookies starts the ensemble, which connects to the session's listener.
func (s *session) startBookies() error {
	if err := s.makeJournalDir(); err != nil {
		return err
	}
	s.setup = childSetup{Options: s.options, Address: s.listener.Addr().String()}
	s.bookies = make([]*child, s.options.Ensemble)
	for i := range s.bookies {
		if err := s.startBookie(i); err != nil {
			return err
		}
	}
	return nil
}

// startBookie starts the bookie of one place in the ensemble. Where journals are
// kept, one that is killed is started again.
func (s *session) startBookie(index int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	setup := s.setup
	setup.Index = index
	c, err := startChild(RoleBookie, setup)
	if err != nil {
		return err
	}
	s.bookies[index] = c
	go c.events(s.ctx, make(chan workload.Event)) // ends with the child, which close waits for
	go func() {
		<-c.done
		switch {
		case s.ctx.Err() != nil:
		case s.options.JournalDir != "" && wasKilled(c.err):
			if err := s.startBookie(index); err != nil {
				s.cancel(err)
			}
		default:
			s.cancel(c.failure())
		}
	}()
	return nil
}

// wasKilled says that a signal ended a child.
func wasKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// readBackJournals counts what was acknowledged, and what of that is not in the journals.
func (s *session) readBackJournals() (acknowledged uint64, missing int64, err error) {
	acknowledged = s.broker.ledger.confirmed.Load()
	missing, err = readBack(s.options, acknowledged)
	s.unsound = err != nil || missing > 0
	return acknowledged, missing, err
}

// judgeJournals adds what is missing in the journals to the verdict over the whole run.
func (s *session) judgeJournals(r *recording.WorkloadResult) error {
	if s.journals == "" {
		return nil
	}
	acknowledged, missing, err := s.readBackJournals()
	if err != nil {
		return err
	}
	r.Verify.Lost += missing
	r.Verify = judgeMessages(r.Verify)
	r.Settings["journal_entries"] = strconv.FormatUint(acknowledged, 10)
	recoveries := int64(0)
	for _, c := range s.broker.bookies {
		recoveries += c.recoveries.Load()
	}
	r.Settings["bookie_recoveries"] = strconv.FormatInt(recoveries, 10)
	return nil
}
