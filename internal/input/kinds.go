package input

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// sniffed is how much of a file is looked at to tell what it is.
const sniffed = 4096

// signature is how a kind of file begins that contend does not read, and what
// to say of it.
type signature struct {
	at    int
	magic string
	what  string
}

// signatures of files that people have at hand beside profiles.
var signatures = []signature{
	{0, "PERFILE2", "a perf.data file of Linux perf: contend reads folded stacks of it, as of perf script | stackcollapse-perf.pl"},
	{0, "FLR\x00", "a JDK Flight Recorder file: contend reads collapsed stacks of it, as of jfrconv --lock --total -o collapsed"},
	{0, "JAVA PROFILE ", "a Java heap dump: it says nothing of waits"},
	{0, "\x7fELF", "an executable, a library or a core dump, not a recording of one: contend record -- FILE runs a program"},
	{0, "MZ", "a Windows executable, not a recording"},
	{0, "\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first"},
	{0, "\xfd7zXZ\x00", "compressed by xz: unpack it first"},
	{0, "BZh", "compressed by bzip2: unpack it first"},
	{0, "\x04\x22\x4d\x18", "compressed by lz4: unpack it first"},
	{0, "PK\x03\x04", "a zip archive: unpack it first"},
	{257, "ustar", "a tar archive: unpack it first"},
	{0, "\x89PNG", "a picture"},
	{0, "\xff\xd8\xff", "a picture"},
	{0, "%PDF-", "a PDF document"},
	{0, "SQLite format 3\x00", "an SQLite database"},
}

// foreignText are the beginnings of texts that contend does not read.
var foreignText = []signature{
	{0, "{", "JSON: contend reads recordings and profiles, not what it or other tools made of them"},
	{0, "[", "JSON: contend reads recordings and profiles, not what it or other tools made of them"},
	{0, "<svg", "a flame graph drawn as SVG: give the profile that it was drawn from"},
	{0, "<?xml", "XML or SVG: give the profile that it was made from"},
	{0, "<", "a web page, perhaps an error of a server instead of a profile: look at what the URL answers"},
	{0, "Full thread dump", "a Java thread dump: it has no times; contend reads collapsed off-CPU or lock stacks of a JVM"},
	{0, "heap profile:", "a heap profile: it says nothing of waits"},
	{0, "threadcreate profile:", "a thread creation profile: it says nothing of waits"},
}

// unread says what a file is that contend does not read, and what to do; "" for
// what it might read.
func unread(head []byte) string {
	for _, s := range signatures {
		if len(head) >= s.at && bytes.HasPrefix(head[s.at:], []byte(s.magic)) {
			return s.what
		}
	}
	if !isText(head) {
		return ""
	}
	text := strings.TrimLeft(string(head), "\ufeff \t\r\n")
	for _, s := range foreignText {
		if strings.HasPrefix(text, s.magic) && !strings.HasPrefix(text, "[unknown]") && !isMark(text) {
			return s.what
		}
	}
	// jstack begins with the time of day.
	if strings.Contains(text, "\nFull thread dump") {
		return foreignText[5].what
	}
	return ""
}

// isMark tells a frame like "[libc.so.6]" from a JSON array, both of which begin
// with a bracket.
func isMark(text string) bool {
	end := strings.IndexByte(text, ']')
	return text[0] == '[' && end > 1 && !strings.ContainsAny(text[:end], "{\",\n") && strings.ContainsAny(text[:end], "abcdefghijklmnopqrstuvwxyz")
}

// isText tells text from a binary file: a protocol buffer has control
// characters within its first bytes.
func isText(head []byte) bool {
	for _, c := range head {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\x1b' {
			return false
		}
	}
	if len(head) < sniffed {
		return true
	}
	return utf8.Valid(head[:len(head)-utf8.UTFMax]) || bytes.IndexByte(head, '\n') > 0
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
