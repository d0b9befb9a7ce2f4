package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// extension ends the names of logs.
const extension = ".jsonl"

// maxBase bounds the length of a file's name; systems allow 255 bytes.
const maxBase = 200

// fileOf returns the file of a log: the parts of its name, with special characters as
// %XX.
func fileOf(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = escape(part)
	}
	return strings.Join(parts, "/") + extension
}

// Escape turns any text into one part of a log's name.
func Escape(part string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(part)
}

func escape(part string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(part) {
		c := part[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	s := b.String()
	if s == "" {
		return "%"
	}
	if len(s) > maxBase {
		sum := sha256.Sum256([]byte(part))
		s = s[:maxBase-17] + "-" + hex.EncodeToString(sum[:8])
	}
	return s
}
