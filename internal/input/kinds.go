package input

import (
	"bytes"
	"fmt"
	"strings"
)

// sniffed is how much of a file is looked at to tell what it is.
const sniffed = 4096

// signature is how a kind of file begins that contend does not read, and what
// to say of it.
type signature struct {
	magic string
	what  string
	at    int // where the magic stands
}

// signatures of files that people have at hand beside profiles.
var signatures = []signature{
	{magic: "PERFILE2", what: "a perf.data file of Linux perf: contend reads folded stacks of it, as of perf script | stackcollapse-perf.pl"},
	{magic: "FLR\x00", what: "a JDK Flight Recorder file: contend reads collapsed stacks of it, as of jfrconv --lock --total -o collapsed"},
	{magic: "JAVA PROFILE ", what: "a Java heap dump: it says nothing of waits"},
	{magic: "\x7fELF", what: "an executable, a library or a core dump, not a recording of one: contend record -- FILE runs a program"},
	{magic: "MZ", what: "a Windows executable, not a recording"},
	{magic: "\x28\xb5\x2f\xfd", what: "compressed by zstd: unpack it first"},
	{magic: "\xfd7zXZ\x00", what: "compressed by xz: unpack it first"},
	{magic: "BZh", what: "compressed by bzip2: unpack it first"},
	{magic: "\x04\x22\x4d\x18", what: "compressed by lz4: unpack it first"},
	{magic: "PK\x03\x04", what: "a zip archive: unpack it first"},
	{magic: "ustar", what: "a tar archive: unpack it first", at: 257},
	{magic: "\x89PNG", what: "a picture"},
	{magic: "\xff\xd8\xff", what: "a picture"},
	{magic: "SQLite format 3\x00", what: "an SQLite database"},
}

// A Java thread dump, by its first line, or the one below the time of day.
const (
	javaDump     = "Full thread dump"
	javaDumpWhat = "a Java thread dump: it has no times; contend reads collapsed off-CPU or lock stacks of a JVM"
)

// foreignText are the beginnings of texts that contend does not read.
var foreignText = []signature{
	{magic: "{", what: "JSON: contend reads recordings and profiles, not what it or other tools made of them"},
	{magic: "[", what: "JSON: contend reads recordings and profiles, not what it or other tools made of them"},
	{magic: "<svg", what: "a flame graph drawn as SVG: give the profile that it was drawn from"},
	{magic: "<?xml", what: "XML or SVG: give the profile that it was made from"},
	{magic: "<", what: "a web page, perhaps an error of a server instead of a profile: look at what the URL answers"},
	{magic: javaDump, what: javaDumpWhat},
	{magic: "%PDF-", what: "a PDF document"},
	{magic: "heap profile:", what: "a heap profile: it says nothing of waits"},
	{magic: "threadcreate profile:", what: "a thread creation profile: it says nothing of waits"},
}

// unreadBinary says what a binary file is that contend does not read, and what
// to do; "" for what it might read.
func unreadBinary(head []byte) string {
	for _, s := range signatures {
		if len(head) >= s.at && bytes.HasPrefix(head[s.at:], []byte(s.magic)) {
			return s.what
		}
	}
	return ""
}

// unreadText says the same of a text that nothing else has claimed.
func unreadText(text []byte) string {
	head := text[:min(len(text), sniffed)]
	begins := bytes.TrimLeft(head, "\ufeff \t\r\n")
	if bytes.HasPrefix(begins, []byte("{")) && bytes.Contains(head, []byte(`"start_mono_ns"`)) {
		return "the manifest of a recording: give the folder that it is in"
	}
	for _, s := range foreignText {
		if bytes.HasPrefix(begins, []byte(s.magic)) {
			return "not a recording or a profile: " + s.what
		}
	}
	if bytes.Contains(head, []byte("\n"+javaDump)) { // jstack begins with the time of day
		return "not a recording or a profile: " + javaDumpWhat
	}
	return fmt.Sprintf("neither a profile, folded stacks, an execution trace nor a goroutine dump: it begins %q", quote(text))
}

// isText tells text from a binary file. A protocol buffer is full of control
// characters, or begins with its strings, the first of which is empty: a zero.
// Text may have a few, in the names that it quotes.
func isText(head []byte) bool {
	controls := 0
	for _, c := range head {
		switch {
		case c == 0:
			return false
		case c < ' ' && c != '\t' && c != '\n' && c != '\r':
			controls++
		}
	}
	return controls*50 <= len(head)
}

// quote is the beginning of a text, to be shown in an error.
func quote(text []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	s := strings.ToValidUTF8(string(line), "\uFFFD")
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return s
}
