package ledger

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// testJournal are settings of one bookie with a journal in a folder of the test's.
func testJournal(t *testing.T, sync string) Options {
	o := Defaults()
	o.Sync, o.JournalDir = sync, t.TempDir()
	return o
}

// entries frames messages from an entry on, as the broker sends them.
func entries(o Options, first uint64, n int) []byte {
	w := beginBatch(nil, kindAppend, first)
	for i := range uint64(n) {
		m := makeMessage(o, first+i, 0)
		w.add(m.key, m.payload)
	}
	return w.end()[frameHeader:]
}

func mustOpen(t *testing.T, o Options) *journal {
	t.Helper()
	j, err := openJournal(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func mustAppend(t *testing.T, j *journal, body []byte) {
	t.Helper()
	if _, err := j.append(body); err != nil {
		t.Fatal(err)
	}
	if err := j.commit(); err != nil {
		t.Fatal(err)
	}
}

func TestJournalGoesOnWhereItEnded(t *testing.T) {
	for _, sync := range []string{SyncNone, SyncBatch, SyncEach} {
		o := testJournal(t, sync)
		for round := range uint64(3) {
			j := mustOpen(t, o)
			if j.next != 20*round || j.torn != 0 {
				t.Fatalf("%s: opened at entry %d, %d bytes torn; want %d, 0", sync, j.next, j.torn, 20*round)
			}
			mustAppend(t, j, entries(o, j.next, 15))
			mustAppend(t, j, entries(o, j.next, 5))
			if err := j.close(); err != nil { // or not: a killed process does not
				t.Fatal(err)
			}
		}
		if missing, err := readBack(o, 60); missing != 0 || err != nil {
			t.Errorf("%s: %d missing, %v", sync, missing, err)
		}
		if missing, err := readBack(o, 61); missing != 1 || err != nil {
			t.Errorf("%s: %d missing, %v; want 1", sync, missing, err)
		}
	}
}

// Whatever a crash leaves behind the last whole record is found and cut off.
func TestJournalCutsATornTail(t *testing.T) {
	o := testJournal(t, SyncBatch)
	j := mustOpen(t, o)
	mustAppend(t, j, entries(o, 0, 10))
	whole := j.size
	mustAppend(t, j, entries(o, 10, 10))
	path := j.file.Name()
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[len(flipped)-1] ^= 1
	zeros := append(bytes.Clone(data[:whole]), make([]byte, 4096)...)
	for name, content := range map[string][]byte{
		"half a header":      data[:whole+5],
		"a header alone":     data[:whole+recordHeader],
		"half a record":      data[:len(data)-1],
		"a changed bit":      flipped,
		"zeros from the end": zeros,
	} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, o)
		if j.next != 10 || j.torn != int64(len(content))-whole {
			t.Errorf("%s: opened at entry %d, %d bytes torn", name, j.next, j.torn)
		}
		mustAppend(t, j, entries(o, 10, 1))
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
		if missing, err := readBack(o, 11); missing != 0 || err != nil {
			t.Errorf("%s: %d missing, %v", name, missing, err)
		}
		if err := os.Remove(j.path(1)); err != nil {
			t.Fatal(err)
		}
	}
}

// Damage that is not at the end is no crash's: it must not pass for one.
func TestReadBackRefusesDamageInside(t *testing.T) {
	o := testJournal(t, SyncNone)
	j := mustOpen(t, o)
	mustAppend(t, j, entries(o, 0, 10))
	damaged := j.file.Name()
	if err := j.roll(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, entries(o, 10, 10))
	data, _ := os.ReadFile(damaged)
	data[100] ^= 1
	if err := os.WriteFile(damaged, data, 0o644); err != nil {
		t.Fatal(err)
	}
	var torn *tornError
	if _, err := readBack(o, 20); !errors.As(err, &torn) {
		t.Errorf("damage read back as %v", err)
	}
}

func TestStripesCoverEachEntryByAQuorum(t *testing.T) {
	for ensemble := uint64(1); ensemble <= 3; ensemble++ {
		for quorum := uint64(1); quorum <= ensemble; quorum++ {
			got := make(map[uint64]int)
			for i := range ensemble {
				s := stripe{ensemble, quorum, i}
				first := s.from(0)
				for n := range 30 {
					e := s.after(first, n)
					if !s.has(e) {
						t.Errorf("%+v: %d after %d entries is another's", s, e, n)
					}
					got[e]++
				}
			}
			for e := range uint64(30) {
				if got[e] != int(quorum) {
					t.Errorf("%d/%d: entry %d is on %d bookies", ensemble, quorum, e, got[e])
				}
			}
		}
	}
}

func FuzzScanRecords(f *testing.F) {
	o := Defaults()
	j := &journal{sync: SyncNone, stripe: stripe{1, 1, 0}}
	for range 2 {
		if _, err := j.append(entries(o, j.next, 2)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(j.group)
	f.Add(j.group[:len(j.group)-3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		good, err := scanRecords(bytes.NewReader(data), func(b batch) error { return nil })
		if good < 0 || good > int64(len(data)) || (err == nil) != (good == int64(len(data))) {
			t.Errorf("%d of %d bytes are good, %v", good, len(data), err)
		}
	})
}
