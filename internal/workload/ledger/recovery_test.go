package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"contend/internal/workload"
)

// Bookies are killed while the load runs: what was acknowledged is delivered,
// once and in order, and is in the journals.
func TestKilledBookiesRecover(t *testing.T) {
	for _, quorums := range [][3]int{{1, 1, 1}, {3, 3, 2}, {3, 2, 1}} {
		t.Run(fmt.Sprint(quorums), func(t *testing.T) {
			o := small()
			o.Ensemble, o.WriteQuorum, o.AckQuorum = quorums[0], quorums[1], quorums[2]
			o.Sync, o.JournalDir, o.Rate = SyncBatch, t.TempDir(), 5000
			o.WindowMessages = 1 << 40
			b := startBroker(t, o)
			b.want(workload.EventWarm)
			b.command(workload.CommandWindow)
			b.want(workload.EventBegin)
			const kills = 3
			for range kills {
				victim := b.children()[RoleBookie]
				if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				deadline := time.Now().Add(patience)
				for !b.hasOtherBookies(victim, o.Ensemble) {
					if time.Now().After(deadline) {
						t.Fatal("no bookie came back")
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			time.Sleep(200 * time.Millisecond) // of load after the last
			b.command(workload.CommandStop)
			b.want(workload.EventEnd)
			final := b.want(workload.EventFinal).Result
			if !final.Verify.OK || final.Added != final.Operations {
				t.Errorf("%+v", final)
			}
			if n, _ := strconv.Atoi(final.Settings["bookie_recoveries"]); n < 1 || n > kills {
				t.Errorf("%d recoveries of %d", n, kills)
			}
			if n, _ := strconv.ParseInt(final.Settings["journal_entries"], 10, 64); n != final.Added {
				t.Errorf("%d entries read back, %d acknowledged", n, final.Added)
			}
			if err := b.cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, b.stderr.String())
			}
			if left, _ := filepath.Glob(filepath.Join(o.JournalDir, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// hasOtherBookies says that all bookies live, and the victim is none of them.
func (b *brokerProcess) hasOtherBookies(victim, want int) bool {
	n := 0
	for _, c := range childrenOf(b.cmd.Process.Pid) {
		if c.role == RoleBookie && c.pid != victim {
			n++
		}
	}
	return n == want
}

// A journal that does not hold what was acknowledged must not be gone on with.
func TestLostJournalEndsTheRun(t *testing.T) {
	o := small()
	o.JournalDir, o.Rate, o.WindowMessages = t.TempDir(), 5000, 1<<40
	b := startBroker(t, o)
	b.want(workload.EventWarm)
	paths, _ := filepath.Glob(filepath.Join(o.JournalDir, "*", "*.journal"))
	if len(paths) != 1 {
		t.Fatalf("journals %v", paths)
	}
	if err := os.Truncate(paths[0], 100); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(b.children()[RoleBookie], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := b.NextEvent(); err == nil {
		t.Error("the run went on")
	} else if want := errEntriesLost.Error(); !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if b.cmd.Wait() == nil {
		t.Error("the broker ended with success")
	}
	if _, err := os.Stat(paths[0]); err != nil {
		t.Errorf("the evidence is gone: %v", err)
	}
}
