package journal

import (
	"bytes"
	"encoding/json"
	"slices"
)

// scan cuts the content of a file into its lines. good is the size of the whole lines
// in bytes; after it comes a torn one. ended says that the last line has its line
// break. bad is the number of an unreadable line with others after it, or 0.
func scan(data []byte) (lines []json.RawMessage, good int, ended bool, bad int) {
	ended = true
	number, torn := 0, 0
	for at := 0; at < len(data); {
		line := data[at:]
		next, whole := len(data), false
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line, next, whole = line[:end], at+end+1, true
		}
		number++
		switch {
		case !isObject(line):
			if torn == 0 {
				torn = number
			}
		case torn > 0:
			return lines, good, ended, torn
		default:
			lines = append(lines, json.RawMessage(slices.Clip(line)))
			good, ended = next, whole
		}
		at = next
	}
	return lines, good, ended, 0
}

// isObject reports whether a line is a complete JSON object: a part of one is none.
func isObject(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 1 && line[0] == '{' && json.Valid(line)
}
