package fakeserver

import (
	"regexp"
	"strconv"
	"strings"
)

// A task is what the first user message asks an author to do.
type task struct {
	indexes []int // the messages to read; empty if none are named
}

// maxTask bounds how many messages an author reads: more is a mistake in the
// task.
const maxTask = 64

// named matches messages that a text names: message 7, messages 3 to 5,
// messages 3-5, messages 2, 4 and 9.
var named = regexp.MustCompile(`(?i)\bmessages?\s+(?:nos?\.?\s+|numbers?\s+|#)?(\d+(?:\s*(?:to|through|until|and|[-–—,&])\s*#?\d+)*)`)

// joint matches a number and what stands before it.
var joint = regexp.MustCompile(`(?i)(to|through|until|and|[-–—,&])?\s*#?(\d+)`)

// readTask finds the messages named first in a text.
func readTask(text string) task {
	var t task
	found := named.FindStringSubmatch(text)
	if found == nil {
		return t
	}
	last := -1
	for _, m := range joint.FindAllStringSubmatch(found[1], -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			break // too large to be meant
		}
		from := n
		switch strings.ToLower(m[1]) {
		case "to", "through", "until", "-", "–", "—":
			from = last + 1
		}
		for i := max(from, 0); i <= n && len(t.indexes) < maxTask; i++ {
			t.indexes = append(t.indexes, i)
		}
		last = n
	}
	return t
}
