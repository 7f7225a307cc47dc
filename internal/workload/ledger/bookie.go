package ledger

import (
	"errors"
	"fmt"
	"io"
	"net"
)

// runBookie is the bookie process: it appends entries to its journal, commits
// them group by group and answers each group. A group is whatever arrived
// while the last one was being written.
func runBookie(conn net.Conn, j *journal) error {
	frames := newFrameBuffer(4 * bookieFrame)
	defer frames.close()
	var answer []byte
	var ranges []seqRange
	for {
		n, err := conn.Read(frames.space())
		frames.filled(n)
		if n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading from the broker: %w", err)
		}
		if ranges, err = appendFrames(j, frames, ranges[:0]); err != nil {
			return err
		}
		if len(ranges) == 0 {
			continue
		}
		if err := j.commit(); err != nil {
			return err
		}
		answer = appendRanges(answer[:0], kindAppended, ranges)
		if _, err := conn.Write(answer); err != nil {
			return fmt.Errorf("answering the broker: %w", err)
		}
	}
}

// appendFrames appends the entries of every whole frame, and their ranges to dst.
func appendFrames(j *journal, frames *frameBuffer, dst []seqRange) ([]seqRange, error) {
	for {
		kind, body, ok, err := frames.frame()
		if err != nil || !ok {
			return dst, err
		}
		if kind != kindAppend {
			return dst, fmt.Errorf("reading from the broker: %w: kind %d", errFrame, kind)
		}
		r, err := j.append(body)
		if err != nil {
			return dst, err
		}
		dst = append(dst, r)
	}
}
