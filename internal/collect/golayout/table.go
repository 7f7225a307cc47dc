package golayout

// row has what differs between releases, from the one it names on.
type row struct {
	minor, patch int

	schedBP                                              uint32
	atomicstatus, goid, schedlink, waitsince, waitreason uint32
	lockedm, waiting                                     uint32
	curg, lockedg                                        uint32
	sudogElem, sudogWaitlink, sudogSize                  uint32
	semaWaiting                                          bool
}

// table is sorted. Its figures are the DWARF of binaries that these releases
// built. g changed between minors only; m grew within two of them (allpSnapshot, at
// 1.23.12 and 1.24.6). From 1.26 on sudog.elem is {vp, vu}, of which the second is
// the address.
var table = []row{
	{22, 0, 104, 144, 152, 160, 168, 176, 208, 312, 192, 344, 24, 64, 88, false},
	{23, 0, 104, 152, 160, 168, 176, 184, 216, 320, 192, 344, 24, 64, 88, false},
	{23, 12, 104, 152, 160, 168, 176, 184, 216, 320, 192, 368, 24, 64, 88, false},
	{24, 0, 104, 152, 160, 168, 176, 184, 216, 320, 192, 344, 24, 64, 88, false},
	{24, 6, 104, 152, 160, 168, 176, 184, 216, 320, 192, 368, 24, 64, 88, false},
	{25, 0, 96, 144, 152, 160, 168, 176, 208, 312, 184, 360, 24, 64, 88, false},
	{26, 0, 96, 144, 152, 160, 168, 176, 208, 320, 184, 384, 32, 72, 104, true},
}

// fromTable gives the layout of a release that is not older than the table.
func fromTable(minor, patch int) *Layout {
	found := table[0]
	for _, r := range table[1:] {
		if minor > r.minor || minor == r.minor && patch >= r.patch {
			found = r
		}
	}
	return &Layout{
		// The same in all of them.
		StackHi: 8, GM: 48, SchedSP: 56, SchedPC: 64, SchedG: 72, MG0: 0,
		SudogNext: 8, SudogPrev: 16, RootTreap: 8, PollRg: 32, PollWg: 40,

		SchedBP:      found.schedBP,
		Atomicstatus: found.atomicstatus, Goid: found.goid, Schedlink: found.schedlink,
		Waitsince: found.waitsince, Waitreason: found.waitreason,
		Lockedm: found.lockedm, Waiting: found.waiting,
		Curg: found.curg, Lockedg: found.lockedg,
		SudogElem: found.sudogElem, SudogWaitlink: found.sudogWaitlink, SudogSize: found.sudogSize,
		SemaWaiting: found.semaWaiting,
		Source:      FromTable,
	}
}
